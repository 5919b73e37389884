"""Two producers race on a whole broker, which is stopped, killed, and has a full disk now and then.

What the races on a model of partitions say of the coordinator, this says of all that a client can
reach by requests: partitions, groups, markers and readers included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing.files import FaultyFiles
from kafkalite.transactions.state import Producer
from tests.effort import examples
from tests.properties.transaction_broker import (
    NEW,
    OLD,
    PARTITIONS,
    Broker,
    Versions,
    copied,
    prepared,
)

if TYPE_CHECKING:
    from collections.abc import Callable

DISKS = {versions: prepared(versions) for versions in (OLD, NEW)}


class Step(NamedTuple):
    """Something that happens, and how."""

    deed: str
    who: int
    is_so: bool
    """Whether to commit, or to go on as the one that one was; which partition comes first."""


DEEDS = {
    "init": 1, "write": 6, "write all": 8, "offset": 3, "end": 10, "a second": 2, "a timeout": 1,
    "stop": 1, "kill": 2, "full disk": 2,
}  # fmt: skip
"""What may happen → how often."""
STEPS = st.lists(
    st.builds(
        Step,
        deed=st.sampled_from([deed for deed, weight in DEEDS.items() for _ in range(weight)]),
        who=st.sampled_from([0, 0, 0, 1]),
        is_so=st.booleans(),
    ),
    min_size=15,
    max_size=40,
)


class Disk(FaultyFiles):
    """A disk that is full from some moment on, for so many steps."""

    def refuse_next(self, steps: int) -> None:
        self._fail_at, self._refusals, self._crash = self.steps, steps, False


class Deed:
    """A transaction: its number, what it wrote, and what its producer was told of its end."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.written = dict.fromkeys(PARTITIONS, 0)
        self.has_offset = False
        self.wish: bool | None = None
        self.told: bool | None = None


class Client:
    """A producer's client."""

    def __init__(self) -> None:
        self.producer: Producer | None = None
        self.deed: Deed | None = None


class Story:
    """A broker, two clients with one transactional id, and a reader of committed records."""

    def __init__(self, versions: Versions) -> None:
        self.versions = versions
        self.disk = Disk(copied(DISKS[versions]))
        self.broker = Broker(self.disk, versions)
        self.clients = (Client(), Client())
        self.deeds: list[Deed] = []
        self.stable = dict.fromkeys(PARTITIONS, 0)
        self.seen: dict[int, list[int]] = {index: [] for index in PARTITIONS}

    # What clients do

    def init(self, client: Client, *, goes_on: bool) -> None:
        answer = self.broker.ask_init(client.producer if goes_on else None)
        if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            return
        client.deed = None
        client.producer = None
        if answer.error_code == 0:
            client.producer = Producer(answer.producer_id, answer.producer_epoch)

    def deed_of(self, client: Client) -> Deed:
        if client.deed is None:
            client.deed = Deed(len(self.deeds))
            self.deeds.append(client.deed)
        return client.deed

    def write(self, client: Client, *indexes: int) -> None:
        for index in indexes:
            deed = self.deed_of(client)
            producer = client.producer
            if producer is None or deed.wish is not None:
                return
            code = self.broker.ask_add(producer, index) if self.versions.adds else 0
            if code == 0:
                code = self.broker.ask_produce(producer, index, b"%d" % deed.number)
            deed.written[index] += code == 0
            self.heed(client, code)

    def commit_offset(self, client: Client) -> None:
        deed = self.deed_of(client)
        if client.producer is None or deed.wish is not None:
            return
        code = self.broker.ask_add_offsets(client.producer) if self.versions.adds else 0
        if code == 0:
            code = self.broker.ask_commit_offset(client.producer, deed.number)
        deed.has_offset |= code == 0
        self.heed(client, code)

    def end(self, client: Client, *, is_commit: bool) -> None:
        deed = self.deed_of(client)
        if deed.wish is None and not (deed.has_offset or any(deed.written.values())):
            self.write(client, *PARTITIONS)
        if client.producer is None or client.deed is not deed:
            return
        # Once asked for, an end is asked for until it is answered.
        deed.wish = is_commit if deed.wish is None else deed.wish
        answer = self.broker.ask_end(client.producer, is_commit=deed.wish)
        if answer.error_code == 0:
            deed.told = deed.wish
            client.producer = self.broker.successor(client.producer, answer)
            client.deed = None
        elif answer.error_code != ErrorCode.NOT_COORDINATOR:
            self.heed(client, answer.error_code)

    def heed(self, client: Client, code: int) -> None:
        """Give up after an error, unless it only says to wait."""
        if code not in {0, ErrorCode.CONCURRENT_TRANSACTIONS}:
            client.producer = client.deed = None

    # What befalls the broker

    def start_again(self, *, is_killed: bool) -> None:
        """Start on what is on the disk, at the time that it is by now."""
        now_ms = self.broker.clock.now_ms()
        if not is_killed:
            self.broker.end()
        sequences = self.broker.sequences
        self.disk = Disk(copied(self.disk.disk))
        self.broker = Broker(self.disk, self.versions)
        self.broker.sequences = sequences
        self.broker.clock.advance(now_ms - self.broker.clock.now_ms())

    def fill_disk(self, client: Client, *, is_commit: bool) -> None:
        """Let the disk be full while a transaction is to end."""
        self.disk.refuse_next(3 if is_commit else 1)
        self.end(client, is_commit=is_commit)
        self.disk.refuse_next(0)

    # What must hold

    def look(self) -> None:
        """See what a reader of committed records sees, and that it is not less than before."""
        for index in PARTITIONS:
            answer = self.broker.fetch(index)
            assert answer.last_stable_offset >= self.stable[index], "the stable offset moved back"
            self.stable[index] = answer.last_stable_offset
            seen = self.broker.committed(index)
            before = self.seen[index]
            assert seen[: len(before)] == before, "what was read once is gone"
            self.seen[index] = seen
            for number in set(seen):
                assert self.deeds[number].wish is True, "nobody asked to commit this"
                assert self.deeds[number].told is not False, "this was said to be aborted"

    def happen(self, step: Step) -> None:
        client = self.clients[step.who]
        order = PARTITIONS if step.is_so else PARTITIONS[::-1]
        if client.producer is None:
            self.init(client, goes_on=False)
        deeds: dict[str, Callable[[], None]] = {
            "init": lambda: self.init(client, goes_on=step.is_so),
            "write": lambda: self.write(client, order[0]),
            "write all": lambda: self.write(client, *order),
            "offset": lambda: self.commit_offset(client),
            "end": lambda: self.end(client, is_commit=step.is_so),
            "a second": lambda: self.broker.clock.advance(1_000),
            "a timeout": lambda: self.broker.clock.advance(75_000),
            "stop": lambda: self.start_again(is_killed=False),
            "kill": lambda: self.start_again(is_killed=True),
            "full disk": lambda: self.fill_disk(client, is_commit=step.is_so),
        }
        deeds[step.deed]()
        self.look()

    def come_to_an_end(self) -> None:
        """Let everything be carried out that was decided, and everything else time out."""
        self.start_again(is_killed=True)
        self.broker.clock.advance(120_000)
        self.look()
        assert all(self.broker.is_stable(index) for index in PARTITIONS)
        committed = {number for seen in self.seen.values() for number in seen}
        for deed in self.deeds:
            is_whole = deed.number in committed or deed.told is True
            for index in PARTITIONS:
                count = self.seen[index].count(deed.number)
                assert count == (deed.written[index] if is_whole else 0), "half a transaction"
        offsets = [
            deed.number
            for deed in self.deeds
            if deed.has_offset and (deed.number in committed or deed.told is True)
        ]
        silent = {
            deed.number
            for deed in self.deeds
            if deed.has_offset
            and deed.wish
            and deed.told is None
            and not any(deed.written.values())
        }
        assert self.broker.offset() in {max(offsets, default=-1), *silent}


@given(versions=st.sampled_from([OLD, NEW]), steps=STEPS)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whoever_races_and_whatever_fails_readers_see_whole_transactions(
    versions: Versions, steps: list[Step]
) -> None:
    story = Story(versions)
    for step in steps:
        story.happen(step)
    story.come_to_an_end()
