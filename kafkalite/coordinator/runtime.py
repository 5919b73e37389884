"""CoordinatorRuntime: the shards of one coordinator, and which of them keeps what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from kafkalite.coordinator.active import ActiveShard
from kafkalite.coordinator.contract import Machine, UnreadableLogError
from kafkalite.coordinator.gathering import Gathering
from kafkalite.coordinator.journal import Journal
from kafkalite.coordinator.loading import replay_state
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalite.coordinator.contract import CoordinatorLog, Decision, RecordSerde
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.waiting import Waiting

R = TypeVar("R")

_LOCATED_LIMIT, _LOCATED_LENGTH = 16_384, 256
"""How many keys are remembered with their shard until that starts afresh, and how long ones."""

M = TypeVar("M", bound=Machine)


def java_string_hash(text: str) -> int:
    """Return Java's String.hashCode: signed 32 bits, over UTF-16 code units."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    code = 0
    for unit in units:
        code = (31 * code + unit) & 0xFFFF_FFFF
    return code - (1 << 32) if code & 0x8000_0000 else code


def partition_of(key: str, partition_count: int) -> int:
    """Return the partition that keeps `key`, by Kafka's rule: abs(hash) mod count.

    Java's one hash without a positive counterpart counts as 0.
    """
    code = java_string_hash(key)
    return 0 if code == -(1 << 31) else abs(code) % partition_count


def _leave_undone(intent: object) -> None:
    """Do nothing about an intent: a machine names in `on_loaded` what was left undone."""


class CoordinatorRuntime(Generic[M]):
    """The shards of one coordinator, by the partitions of its log topic.

    All nodes of an emulated cluster share one runtime; which of them may speak for a partition is
    its leader, as `lead` was told last.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        serde: RecordSerde,
        partition_count: Callable[[], int],
        open_log: Callable[[int], CoordinatorLog],
        make_machine: Callable[[], M],
        journal: Journal | None = None,
        carry_out: Callable[[object], None] | None = None,
        replay_all: Callable[[CoordinatorLog, RecordSerde, M], object] = replay_state,
    ) -> None:
        """Make a coordinator without shards; what its machines tell is noted in `journal`.

        `carry_out` is handed each intent of a decision once its records are in the log. Where the
        last record of a key does not say all there is to say of it, `replay_all` is `replay_log`;
        where records may be of transactions, `replay_transactions`.
        """
        self._clock = clock
        self._journal = Journal() if journal is None else journal
        self._carry_out = _leave_undone if carry_out is None else carry_out
        self._replay_all = replay_all
        self._serde = serde
        self._configured_count = partition_count
        self._open_log = open_log
        self._make_machine = make_machine
        self._shards: dict[int, ActiveShard[M]] = {}
        self._led_count = 0
        self.gathering = Gathering()
        self.unreadable: dict[int, Exception] = {}
        """Partitions whose log cannot be understood, and why; they have no coordinator."""
        self._located: dict[str, ActiveShard[M]] = {}

    def lead(self, leaders: Sequence[int]) -> None:
        """Take note of who leads each partition of the log topic; none: the topic is gone.

        Partitions that are new are loaded before this returns. OSError when the disk refused one:
        it has no coordinator until this is called again. One that is unreadable, whoever wrote
        that, takes none of the others with it, as in Kafka.
        """
        self._located.clear()
        if not leaders or not self._led_count:
            # A topic that grew keeps what it has where it is, until the next start; as in Kafka.
            self._led_count = len(leaders)
        for partition in [each for each in self._shards if each >= len(leaders)]:
            self._shards.pop(partition).unload()
        for partition in [each for each in self.unreadable if each >= len(leaders)]:
            del self.unreadable[partition]
        refusal = None
        for partition, leader_id in enumerate(leaders):
            shard = self._shards.get(partition)
            if shard is not None:
                shard.leader_id = leader_id
            elif partition not in self.unreadable:
                try:
                    self._load(partition, leader_id)
                except OSError as error:
                    refusal = error
        if refusal is not None:
            raise refusal

    def partition_for(self, key: str) -> int:
        """Return the partition that keeps `key`, whether or not the log topic exists yet.

        What it was when the topic was first led holds, however many partitions it has by now.
        """
        return partition_of(key, self._led_count or self._configured_count())

    def locate(self, key: str, node_id: int) -> ActiveShard[M]:
        """Return the shard that keeps `key`; NOT_COORDINATOR unless `node_id` speaks for it."""
        shard = self._located.get(key)
        if shard is None:
            shard = self._search(key)
        if shard.leader_id != node_id:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return shard

    def shards(self) -> Sequence[ActiveShard[M]]:
        """Return every shard, in the order of partitions."""
        return [self._shards[partition] for partition in sorted(self._shards)]

    def shards_of(self, node_id: int) -> Iterator[ActiveShard[M]]:
        """Return the shards that `node_id` speaks for, in the order of partitions."""
        return (shard for shard in self.shards() if shard.leader_id == node_id)

    def write(self, partition: int, decide: Decision[M, R]) -> R | Waiting[R]:
        """Run one decision on a partition's shard; see ActiveShard.write."""
        return self._active(partition).write(decide)

    def read(self, partition: int, query: Callable[[M, int], R]) -> R:
        """Ask a partition's machine something that changes nothing that lasts."""
        return self._active(partition).read(query)

    def stop(self) -> None:
        """Let go of every shard: timers stop, whoever waits is sent away."""
        self.lead(())

    def _active(self, partition: int) -> ActiveShard[M]:
        shard = self._shards.get(partition)
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return shard

    def _search(self, key: str) -> ActiveShard[M]:
        shard = self._active(self.partition_for(key))
        if len(self._located) >= _LOCATED_LIMIT:
            self._located.clear()
        if len(key) <= _LOCATED_LENGTH:
            self._located[key] = shard
        return shard

    def _load(self, partition: int, leader_id: int) -> None:
        shard = ActiveShard(
            partition=partition,
            leader_id=leader_id,
            machine=self._make_machine(),
            log=self._open_log(partition),
            serde=self._serde,
            clock=self._clock,
            journal=self._journal,
            carry_out=self._carry_out,
            replay_all=self._replay_all,
            gathering=self.gathering,
        )
        try:
            shard.load()
        except UnreadableLogError as error:
            self.unreadable[partition] = error
        except OSError:
            raise
        except Exception as fault:  # noqa: BLE001 - records that are whole may still make no sense
            shard.unload()
            self.unreadable[partition] = fault
        else:
            self._shards[partition] = shard
