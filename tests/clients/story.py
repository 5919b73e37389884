"""The story every client lives through, told once; the tests give it a client and a broker.

A topic is made and filled with every codec, and read back.  A group of three reads while one
joins and one leaves.  The broker restarts, and the group goes on where it had committed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.clients.observer import (
    commit_the_beginning,
    committed_offsets,
    end_offsets,
    wait_until,
)
from tests.clients.records import some_records

if TYPE_CHECKING:
    from tests.clients.drivers.protocol import Event, ReadRow, SentRow
    from tests.clients.process import DriverProcess
    from tests.oracle.target import Target

# The broker's num.partitions, for the clients that create topics by asking for them.
PARTITIONS = 6
RECORDS = 10_000


@dataclass(slots=True)
class Witness:
    """Everything a group's consumers did, checked as it comes in."""

    seen: dict[int, dict[int, tuple[str | None, str | None]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _committed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    commits: int = 0

    def hear(self, events: list[Event]) -> None:
        """Take events in order; an error, or a record that was already committed, fails."""
        for kind, consumer, detail in events:
            assert kind != "error", f"{consumer}: {detail}"
            if kind == "records":
                assert isinstance(detail, list)
                self._hear_records(consumer, detail)
            elif kind == "commit":
                assert isinstance(detail, dict)
                self.commits += 1
                for partition, offset in detail.items():
                    self._committed[partition] = max(self._committed[partition], offset)

    def _hear_records(self, consumer: str, rows: list[ReadRow]) -> None:
        last: dict[int, int] = {}
        for partition, offset, key, value in rows:
            assert offset > last.get(partition, -1), f"{consumer}: order in {partition}"
            assert offset >= self._committed[partition], (
                f"{consumer} got {partition}@{offset} although {self._committed[partition]} "
                "was committed: a commit was lost"
            )
            last[partition] = offset
            known = self.seen[partition].setdefault(offset, (key, value))
            assert known == (key, value)

    def records(self) -> list[ReadRow]:
        """Give every record seen, once, by partition and offset."""
        return [
            (partition, offset, *self.seen[partition][offset])
            for partition in sorted(self.seen)
            for offset in sorted(self.seen[partition])
        ]


def assert_equal_and_in_order(sent: list[SentRow], read: list[ReadRow]) -> None:
    """Every partition holds what was sent to it, in order, at offsets 0, 1, 2 and so on."""
    expected = by_partition(sent)
    found: dict[int, list[ReadRow]] = defaultdict(list)
    for row in read:
        found[row[0]].append(row)
    assert sorted(found) == sorted(expected)
    for partition, rows in found.items():
        assert [row[1] for row in rows] == list(range(len(expected[partition])))
        assert [(row[2], row[3]) for row in rows] == expected[partition]


def by_partition(sent: list[SentRow]) -> dict[int, list[tuple[str | None, str | None]]]:
    """Sort what was sent by its partition."""
    partitions: dict[int, list[tuple[str | None, str | None]]] = defaultdict(list)
    for partition, key, value in sent:
        partitions[partition].append((key, value))
    return partitions


def codec_round_trip(driver: DriverProcess, codec: str) -> None:
    """Produce with one codec and read everything back."""
    topic = f"codec-{codec}"
    driver.create_topic(topic, PARTITIONS)
    sent = some_records(RECORDS, PARTITIONS)
    driver.produce(topic, codec, sent)
    assert_equal_and_in_order(sent, driver.read(topic, PARTITIONS, RECORDS))


@dataclass(frozen=True, slots=True)
class Group:
    """A group under way: its names and the client that forms it."""

    driver: DriverProcess
    target: Target
    group: str
    topic: str
    protocol: str

    def join(self, *consumers: str) -> None:
        """Start consumers and wait until the partitions are shared out among all members."""
        for consumer in consumers:
            self.driver.join(consumer, self.group, self.topic, self.protocol)
        self.wait_until_shared()

    def leave(self, consumer: str) -> None:
        """Let a consumer leave and wait until the others have taken over."""
        self.driver.leave(consumer)
        self.wait_until_shared()

    def wait_until_shared(self) -> None:
        """Wait until every member has partitions and every partition one member."""
        members: dict[str, list[int]] = {}

        def is_shared() -> bool:
            members.clear()
            members.update(self.driver.members())
            owned = sorted(index for indexes in members.values() for index in indexes)
            return all(members.values()) and owned == list(range(PARTITIONS))

        try:
            wait_until(is_shared, "all partitions shared out among all members")
        except AssertionError as error:
            raise AssertionError(f"{error}: {members} {self.driver.events()}") from None

    def wait_until_read(self, witness: Witness, count: int) -> None:
        """Wait until the members have seen that many different records."""

        def is_read() -> bool:
            witness.hear(self.driver.events())
            return sum(map(len, witness.seen.values())) >= count

        wait_until(is_read, f"{count} records")

    def wait_until_committed(self) -> None:
        """Wait until everything in the topic is committed."""
        end = end_offsets(self.target.bootstrap, self.topic, PARTITIONS)
        bootstrap = self.target.bootstrap
        wait_until(
            lambda: committed_offsets(bootstrap, self.group, self.topic) == end,
            f"commits at {end}",
        )


def group_reads_while_members_come_and_go(group: Group) -> Witness:
    """Three read; a fourth joins, then one of the first leaves, while records keep coming.

    The group begins at committed offsets.  Without them librdkafka asks where each log begins,
    and when a rebalance overtakes the answer it leaves a timer behind that asks once more, half a
    second later, and goes back to the beginning whatever was read and committed by then.
    """
    group.driver.create_topic(group.topic, PARTITIONS)
    commit_the_beginning(group.target.bootstrap, group.group, group.topic, PARTITIONS)
    group.join("one", "two", "three")
    witness = Witness()
    sent: list[SentRow] = []
    quarter = RECORDS // 4

    def produce_a_quarter() -> None:
        records = some_records(quarter, PARTITIONS, start=len(sent))
        sent.extend(records)
        group.driver.produce(group.topic, "none", records)

    produce_a_quarter()
    group.join("four")
    produce_a_quarter()
    group.leave("one")
    produce_a_quarter()
    produce_a_quarter()
    group.wait_until_read(witness, RECORDS)
    assert_equal_and_in_order(sent, witness.records())
    group.wait_until_committed()
    for consumer in ("two", "three", "four"):
        group.driver.leave(consumer)
    witness.hear(group.driver.events())
    return witness


def group_resumes_after_a_restart(group: Group, *, is_killed: bool = False) -> None:
    """Commit half, restart the broker on its data, and read the other half and no more."""
    driver, target = group.driver, group.target
    driver.create_topic(group.topic, PARTITIONS)
    before = some_records(RECORDS // 2, PARTITIONS)
    after = some_records(RECORDS // 2, PARTITIONS, start=RECORDS // 2)
    driver.produce(group.topic, "none", before)
    group.join("first")
    group.wait_until_read(Witness(), len(before))
    group.wait_until_committed()
    driver.leave("first")
    driver.events()

    end = target.kill if is_killed else target.stop
    end()
    target.start()

    driver.produce(group.topic, "none", after)
    group.join("second")
    witness = Witness()
    group.wait_until_read(witness, len(after))
    group.wait_until_committed()
    driver.leave("second")
    witness.hear(driver.events())
    resumed = defaultdict(list)
    for partition, _offset, key, value in witness.records():
        resumed[partition].append((key, value))
    assert resumed == by_partition(after)
