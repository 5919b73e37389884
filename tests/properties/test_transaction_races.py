"""Two producers race for one transactional id, while time runs out and the broker restarts.

The coordinator is the real machine on its log. The partitions are a small model: what was appended,
which epochs they know, and which transactions are open on them. Producers behave as clients do:
they say what they write to before they write, end what they began, and ask again when an answer was
lost. Whatever happens in between, these hold:

- of the producers of one id no more than one may write;
- markers say what a Prepare record has decided, and only its own producer decides to commit;
- the last stable offset of a partition never moves back;
- what a reader of committed records sees was committed, and in the end it is all that was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions.state import (
    GREATEST_EPOCH,
    LAST_PRODUCER_EPOCH,
    PREPARED,
    Producer,
    Transaction,
    TransactionState,
)
from tests.effort import examples
from tests.unit.transactions.transaction_world import ID, A, B, TransactionWorld

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.transactions.intents import WriteMarkers
    from kafkalite.transactions.state import TopicPartition

PLACES = (A, B)


class Deed:
    """A transaction as its producer sees it: the records it wrote, and how it wants it to end."""

    def __init__(self) -> None:
        self.wish: bool | None = None
        """Whether it asked to commit; None while it has not asked."""
        self.decided: bool | None = None


class Written(NamedTuple):
    """A record in a partition."""

    producer_id: int
    deed: Deed


class Marker(NamedTuple):
    """A marker in a partition."""

    producer_id: int
    is_commit: bool


class Place:
    """A model of a partition."""

    def __init__(self) -> None:
        self.log: list[Written | Marker] = []
        self.epochs: dict[int, int] = {}
        self.open: dict[int, int] = {}
        """Producer id → the offset at which its open transaction begins."""
        self.last_stable_before = 0

    def is_open(self, producer: Producer) -> bool:
        self.check_epoch(producer)
        known = self.epochs.get(producer.producer_id)
        return producer.producer_id in self.open and known == producer.producer_epoch

    def check_epoch(self, producer: Producer) -> None:
        if producer.producer_epoch < self.epochs.get(producer.producer_id, -1):
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)

    def append(self, producer: Producer, deed: Deed) -> None:
        self.check_epoch(producer)
        self.epochs[producer.producer_id] = producer.producer_epoch
        self.open.setdefault(producer.producer_id, len(self.log))
        self.log.append(Written(producer.producer_id, deed))

    def end(self, marker: WriteMarkers) -> None:
        """Take a marker, or pass it over when it is of an epoch that has passed."""
        known = self.epochs.get(marker.producer_id, -1)
        is_repeated = marker.producer_epoch == known and marker.producer_id not in self.open
        least = known + 1 if marker.transaction_version >= 2 else known
        if is_repeated and marker.transaction_version >= 2:
            return
        assert marker.producer_epoch >= least or marker.producer_epoch == GREATEST_EPOCH
        self.epochs[marker.producer_id] = marker.producer_epoch
        self.open.pop(marker.producer_id, None)
        self.log.append(Marker(marker.producer_id, marker.is_commit))

    def last_stable_offset(self) -> int:
        return min(self.open.values(), default=len(self.log))

    def committed(self) -> list[Deed]:
        """Return what a reader of committed records sees: the deed of each record."""
        seen: list[Deed] = []
        stable = self.last_stable_offset()
        for offset, entry in enumerate(self.log[:stable]):
            if isinstance(entry, Written):
                ending = next(
                    each
                    for each in self.log[offset:]
                    if isinstance(each, Marker) and each.producer_id == entry.producer_id
                )
                if ending.is_commit:
                    seen.append(entry.deed)
        return seen


class Client:
    """A producer's client: what it knows, and what it waits for."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.producer: Producer | None = None
        self.deed = Deed()
        self.has_lost_answer = False

    def begin_anew(self, producer: Producer | None) -> None:
        self.producer = producer
        self.deed = Deed()
        self.has_lost_answer = False


class Step(NamedTuple):
    """Something that happens, and how; most of it means something to some steps alone."""

    deed: str
    who: int
    is_so: bool
    """Whether to commit, or to go on as the one that one was; which partition comes first."""
    is_lost: bool
    fails: bool


DEEDS = {
    "init": 1, "produce": 4, "produce to all": 9, "end": 12, "a marker": 4, "all markers": 7,
    "a second": 2, "a round": 2, "a timeout": 1, "expiry": 1, "restart": 2,
}  # fmt: skip
"""What may happen → how often."""
RARELY = st.sampled_from([False, False, False, False, False, False, True])
STEPS = st.lists(
    st.builds(
        Step,
        deed=st.sampled_from([deed for deed, weight in DEEDS.items() for _ in range(weight)]),
        who=st.sampled_from([0, 0, 0, 0, 1]),
        is_so=st.booleans(),
        is_lost=RARELY,
        fails=RARELY,
    ),
    min_size=30,
    max_size=60,
)


class Races:
    """Two clients, one transactional id, two partitions, and whatever may come between."""

    def __init__(self, level: int, versions: tuple[int, int], left: int | None) -> None:
        self.world = TransactionWorld(level=level, writes_markers=False)
        self.clients = [Client(version if level == 2 else 0) for version in versions]
        self.places = {place: Place() for place in PLACES}
        self.given: set[Producer] = set()
        self.told: list[TopicPartition] = []
        """Where the foremost marker has been written already."""
        self.deed: Deed | None = None
        """What is open under the id."""
        self.entries = 0
        if left is not None:
            self.world.seed(producer_epoch=LAST_PRODUCER_EPOCH - left)
        self.follow_log()

    # What the log decides

    def follow_log(self) -> None:
        """Look at what was decided since the last look; markers may name nothing else."""
        for record in self.world.records()[self.entries :]:
            self.entries += 1
            if record.value is None:
                continue
            assert isinstance(record.value, Transaction)
            state = record.value.state
            if state in PREPARED and self.deed is not None:
                self.deed.decided = state is TransactionState.PREPARE_COMMIT
                assert not self.deed.decided or self.deed.wish is True, "nobody wanted to commit"
                self.deed = None
        for marker in self.world.markers:
            decided = self.world.now()
            assert decided.producer == (marker.producer_id, marker.producer_epoch)
            assert decided.state in PREPARED
            assert marker.is_commit is (decided.state is TransactionState.PREPARE_COMMIT)
            assert marker.partitions == tuple(sorted(decided.partitions))

    def fail_next_append(self, *, fails: bool) -> None:
        self.world.log.fails_with = OSError(28, "no space left on device") if fails else None

    # What clients do

    def happen(self, step: Step) -> None:
        """Let one thing happen, then see that all holds that must."""
        first, second = PLACES if step.is_so else reversed(PLACES)
        deeds: dict[str, Callable[[], None]] = {
            "init": lambda: self.init(step.who, goes_on=step.is_so, fails=step.fails),
            "produce": lambda: self.produce(step.who, first),
            "produce to all": lambda: self.produce_to_all(step.who, first, second),
            "end": lambda: self.end(
                step.who, is_commit=step.is_so, is_lost=step.is_lost, fails=step.fails
            ),
            "a marker": self.a_marker_is_written,
            "all markers": self.all_markers_are_written,
            "a second": lambda: self.time_passes(1_000),
            "a round": lambda: self.time_passes(10_000),
            "a timeout": lambda: self.time_passes(70_000),
            "expiry": lambda: self.time_passes(8 * 24 * 3_600_000),
            "restart": self.restart,
        }
        if (
            step.deed in {"produce", "produce to all", "end"}
            and not self.clients[step.who].producer
        ):
            self.init(step.who, goes_on=False, fails=step.fails)
        deeds[step.deed]()
        self.one_producer_at_most_may_write()
        self.last_stable_offsets_never_move_back()
        self.readers_see_what_was_committed()

    def init(self, who: int, *, goes_on: bool, fails: bool) -> None:
        client = self.clients[who]
        expected = client.producer if goes_on else None
        self.fail_next_append(fails=fails)
        try:
            producer = self.world.init(expected)
        except KafkaError as error:
            if error.code is ErrorCode.PRODUCER_FENCED:
                client.begin_anew(None)
        else:
            assert producer not in self.given or producer == client.producer or expected
            self.given.add(producer)
            client.begin_anew(producer)
        finally:
            self.fail_next_append(fails=False)
        self.follow_log()

    def produce_to_all(self, who: int, *places: TopicPartition) -> None:
        for place in places:
            self.produce(who, place)

    def produce(self, who: int, place: TopicPartition) -> None:
        client = self.clients[who]
        if client.producer is None or client.has_lost_answer:
            return
        partition = self.places[place]
        try:
            if client.version < 2:
                self.world.add(client.producer, place, version=0)
            if not partition.is_open(client.producer):
                self.admit(client, place)
        except KafkaError as error:
            if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                client.begin_anew(None)
            self.follow_log()
            return
        partition.append(client.producer, client.deed)
        self.follow_log()
        assert client.deed.decided is not True, "a record came after its commit"
        if client.deed.decided is None:
            assert self.deed in {None, client.deed}, "two producers write in one transaction"
            self.deed = client.deed

    def admit(self, client: Client, place: TopicPartition) -> None:
        assert client.producer is not None
        codes = self.world.coordinator.admit(ID, client.producer, [place], adds=client.version >= 2)
        if codes[place] is not ErrorCode.NONE:
            raise KafkaError(codes[place])
        if self.world.now().state is TransactionState.ONGOING and client.deed.decided is None:
            assert self.deed in {None, client.deed}, "two producers write in one transaction"
            self.deed = client.deed

    def end(self, who: int, *, is_commit: bool, is_lost: bool, fails: bool) -> None:
        client = self.clients[who]
        if client.producer is None:
            return
        if client.has_lost_answer:
            assert client.deed.wish is not None
            is_commit = client.deed.wish
        client.deed.wish = is_commit
        self.fail_next_append(fails=fails)
        try:
            successor = self.world.end(client.producer, is_commit=is_commit, version=client.version)
        except KafkaError as error:
            is_retriable = {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR}
            if error.code in is_retriable:
                client.has_lost_answer = True
            else:
                client.begin_anew(None)
        else:
            self.follow_log()
            assert not is_commit or client.deed.decided is not False, "committed, yet aborted"
            if is_lost:
                client.has_lost_answer = True
            else:
                client.begin_anew(successor if client.version >= 2 else client.producer)
                self.given.add(client.producer)
        finally:
            self.fail_next_append(fails=False)
        self.follow_log()

    # What befalls them

    def a_marker_is_written(self) -> None:
        if not self.world.markers:
            return
        intent = self.world.markers[0]
        left = [place for place in intent.partitions if place not in self.told]
        if left:
            self.places[left[0]].end(intent)
            self.told.append(left[0])
        else:
            self.world.complete(self.world.markers.pop(0))
            self.told.clear()
            self.follow_log()

    def all_markers_are_written(self) -> None:
        while self.world.markers:
            self.a_marker_is_written()

    def time_passes(self, ms: int) -> None:
        self.world.clock.advance(ms)
        self.follow_log()

    def restart(self) -> None:
        self.world = self.world.restarted()
        # Whom the foremost marker was written to is forgotten, and it is written once more.
        self.told.clear()
        self.follow_log()

    # What must hold

    def one_producer_at_most_may_write(self) -> None:
        live = []
        for producer in self.given:
            try:
                self.world.verify(producer, A)
            except KafkaError:
                continue
            live.append(producer)
        assert len(live) <= 1

    def last_stable_offsets_never_move_back(self) -> None:
        for place in self.places.values():
            stable = place.last_stable_offset()
            assert stable >= place.last_stable_before
            place.last_stable_before = stable

    def readers_see_what_was_committed(self) -> None:
        for place in self.places.values():
            assert all(deed.decided is True for deed in place.committed())

    def come_to_an_end(self) -> None:
        """Let everything be carried out that was decided, and everything else time out."""
        self.restart()
        self.all_markers_are_written()
        self.time_passes(70_000)
        self.all_markers_are_written()
        for place in self.places.values():
            assert not place.open
            written = [entry.deed for entry in place.log if isinstance(entry, Written)]
            assert place.committed() == [deed for deed in written if deed.decided]
            assert all(deed.decided is not None for deed in written)


@given(
    level=st.sampled_from([0, 1, 2, 2]),
    versions=st.tuples(st.sampled_from([0, 2]), st.sampled_from([0, 2])),
    left=st.sampled_from([None, 0, 1, 2, 3]),
    steps=STEPS,
)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_comes_between_a_transaction_is_committed_or_aborted_whole(
    level: int, versions: tuple[int, int], left: int | None, steps: list[Step]
) -> None:
    races = Races(level, versions, left)
    for step in steps:
        races.happen(step)
    races.come_to_an_end()
