"""The scenario of every client; the tests pass a client and a broker.

A topic is created, filled with every codec, and read back. A group of three reads while one
joins and one leaves. The broker restarts, and the group continues at its committed offsets.
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

# The broker's num.partitions, for clients that create topics by a Metadata request.
PARTITIONS = 6
RECORDS = 4_000


@dataclass(slots=True)
class ConsumerHistory:
    """All events of a group's consumers, checked when they arrive."""

    records_by_partition: dict[int, dict[int, tuple[str | None, str | None]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _committed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    commits: int = 0

    def add_events(self, events: list[Event]) -> None:
        """Add events in order; fail for an error, or for a record below a committed offset."""
        for event_type, consumer, detail in events:
            assert event_type != "error", f"{consumer}: {detail}"
            if event_type == "records":
                assert isinstance(detail, list)
                self._add_records(consumer, detail)
            elif event_type == "commit":
                assert isinstance(detail, dict)
                self.commits += 1
                for partition, offset in detail.items():
                    self._committed[partition] = max(self._committed[partition], offset)

    def _add_records(self, consumer: str, rows: list[ReadRow]) -> None:
        last_offsets: dict[int, int] = {}
        for partition, offset, key, value in rows:
            assert offset > last_offsets.get(partition, -1), f"{consumer}: order in {partition}"
            assert offset >= self._committed[partition], (
                f"{consumer} got {partition}@{offset} although {self._committed[partition]} "
                "was committed: a commit was lost"
            )
            last_offsets[partition] = offset
            first_read = self.records_by_partition[partition].setdefault(offset, (key, value))
            assert first_read == (key, value)

    def records(self) -> list[ReadRow]:
        """Return every record once, by partition and offset."""
        return [
            (partition, offset, *self.records_by_partition[partition][offset])
            for partition in sorted(self.records_by_partition)
            for offset in sorted(self.records_by_partition[partition])
        ]


def assert_equal_and_in_order(sent: list[SentRow], read: list[ReadRow]) -> None:
    """Check that each partition has the sent records, in order, at offsets 0, 1, 2 and so on."""
    expected = by_partition(sent)
    read_by_partition: dict[int, list[ReadRow]] = defaultdict(list)
    for row in read:
        read_by_partition[row[0]].append(row)
    assert sorted(read_by_partition) == sorted(expected)
    for partition, rows in read_by_partition.items():
        assert [row[1] for row in rows] == list(range(len(expected[partition])))
        assert [(row[2], row[3]) for row in rows] == expected[partition]


def by_partition(sent: list[SentRow]) -> dict[int, list[tuple[str | None, str | None]]]:
    """Return the sent records by partition."""
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
    """A running group: its names and its client."""

    driver: DriverProcess
    target: Target
    group: str
    topic: str
    protocol: str

    def join(self, *consumers: str) -> None:
        """Start consumers and wait until the partitions are assigned to all members."""
        for consumer in consumers:
            self.driver.join(consumer, self.group, self.topic, self.protocol)
        self.wait_until_shared()

    def leave(self, consumer: str) -> None:
        """Let a consumer leave and wait until the others own its partitions."""
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

    def wait_until_read(self, history: ConsumerHistory, count: int) -> None:
        """Wait until the members have read `count` different records."""

        def is_read() -> bool:
            history.add_events(self.driver.events())
            return sum(map(len, history.records_by_partition.values())) >= count

        wait_until(is_read, f"{count} records")

    def wait_until_committed(self) -> None:
        """Wait until everything in the topic is committed."""
        expected = end_offsets(self.target.bootstrap, self.topic, PARTITIONS)
        bootstrap = self.target.bootstrap
        wait_until(
            lambda: committed_offsets(bootstrap, self.group, self.topic) == expected,
            f"commits at {expected}",
        )


def group_reads_while_members_come_and_go(group: Group) -> ConsumerHistory:
    """Three members read; a fourth joins, then one of the three leaves, during writes.

    The group begins at committed offsets. Without them librdkafka looks up the beginning of each
    log. If a rebalance happens before the response, its timer repeats the lookup half a second
    later, and it seeks to the beginning although it has read and committed records.
    """
    group.driver.create_topic(group.topic, PARTITIONS)
    commit_the_beginning(group.target.bootstrap, group.group, group.topic, PARTITIONS)
    group.join("one", "two", "three")
    history = ConsumerHistory()
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
    group.wait_until_read(history, RECORDS)
    assert_equal_and_in_order(sent, history.records())
    group.wait_until_committed()
    for consumer in ("two", "three", "four"):
        group.driver.leave(consumer)
    history.add_events(group.driver.events())
    return history


def group_resumes_after_a_restart(group: Group, *, is_killed: bool = False) -> None:
    """Commit half, restart the broker with its data, and read only the other half."""
    driver, target = group.driver, group.target
    driver.create_topic(group.topic, PARTITIONS)
    before = some_records(RECORDS // 2, PARTITIONS)
    after = some_records(RECORDS // 2, PARTITIONS, start=RECORDS // 2)
    driver.produce(group.topic, "none", before)
    group.join("first")
    group.wait_until_read(ConsumerHistory(), len(before))
    group.wait_until_committed()
    driver.leave("first")
    driver.events()

    try:
        (target.kill if is_killed else target.stop)()
    finally:
        target.start()  # for the next tests and a retry of this one, which use the same broker

    driver.produce(group.topic, "none", after)
    group.join("second")
    history = ConsumerHistory()
    group.wait_until_read(history, len(after))
    group.wait_until_committed()
    driver.leave("second")
    history.add_events(driver.events())
    resumed = defaultdict(list)
    for partition, _offset, key, value in history.records():
        resumed[partition].append((key, value))
    assert resumed == by_partition(after)
