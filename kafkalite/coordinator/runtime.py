"""CoordinatorRuntime: the shards of one coordinator, and the shard of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from kafkalite.coordinator.active_shard import ActiveShard
from kafkalite.coordinator.contract import Machine, UnreadableLogError
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.coordinator.group_commit import CommitWindow
from kafkalite.coordinator.java_order import java_string_hash
from kafkalite.coordinator.loading import replay_latest
from kafkalite.ports.watchers import Watchers
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalite.coordinator.contract import CoordinatorLog, Decision, RecordSerde
    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.ports.waiting import Waiting

R = TypeVar("R")

_MAX_CACHED_KEYS, _MAX_CACHED_KEY_LENGTH = 16_384, 256
"""Maximum number of cached keys with their shard, and maximum length of such a key."""

_RELOAD_DELAY_MS = 500
"""Delay before another attempt to load a shard that could not be loaded."""

M = TypeVar("M", bound=Machine)


def partition_of(key: str, partition_count: int) -> int:
    """Return the partition of `key` by Kafka's rule: abs(hash) mod count.

    The hash -2**31, which has no positive counterpart, counts as 0.
    """
    code = java_string_hash(key)
    return 0 if code == -(1 << 31) else abs(code) % partition_count


def _ignore_intent(intent: object) -> None:
    """Ignore an intent: the machine returns unfinished intents again from `on_loaded`."""


class CoordinatorRuntime(Generic[M]):
    """The shards of one coordinator, by the partitions of its log topic.

    All nodes of an emulated cluster share one runtime. Only the node that leads a partition may
    serve requests for its keys; `set_leaders` sets these nodes.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        serde: RecordSerde,
        partition_count: Callable[[], int],
        open_log: Callable[[int], CoordinatorLog],
        make_machine: Callable[[int], M],
        history: EventHistory | None = None,
        carry_out: Callable[[object], None] | None = None,
        replay_all: Callable[[CoordinatorLog, RecordSerde, M], object] = replay_latest,
        is_log_empty: Callable[[int], bool] | None = None,
        window: CommitWindow | None = None,
    ) -> None:
        """Create a coordinator without shards. Events of its machines are added to `history`.

        `make_machine` returns a machine without state for the node that leads its partition. With
        `is_log_empty`, a partition whose log is empty is loaded by its first use.

        `carry_out` gets each intent of a decision once its records are in the log. `replay_all` is
        `replay_log` where the state depends on more than the last record of a key, and
        `replay_transactions` where records may belong to transactions.
        """
        self._clock = clock
        self._history = EventHistory() if history is None else history
        self._carry_out = _ignore_intent if carry_out is None else carry_out
        self._replay_all = replay_all
        self._serde = serde
        self._configured_partition_count = partition_count
        self._open_log = open_log
        self._make_machine = make_machine
        self._shards: dict[int, ActiveShard[M]] = {}
        self._is_log_empty = is_log_empty
        self._idle: dict[int, int] = {}
        """Partitions with empty logs that were not used yet → their leaders."""
        self._partition_count = 0
        self._leaders: Sequence[int] = ()
        self._unreachable_nodes: frozenset[int] = frozenset()
        self._reload_timers: dict[int, Timer] = {}
        """Timers for loading a partition again."""
        self.window = CommitWindow() if window is None else window
        self.unreadable: dict[int, Exception] = {}
        """Partition whose log cannot be interpreted → reason; it has no coordinator."""
        self._shard_cache: dict[str, ActiveShard[M]] = {}
        self._is_held = False
        self.watchers = Watchers()
        """Are notified of each change of a machine."""

    def hold(self) -> None:
        """Refuse the requests of clients with NOT_COORDINATOR until `release` is called."""
        self._is_held = True
        self._shard_cache.clear()

    def release(self) -> None:
        """Serve the requests of clients."""
        self._is_held = False

    def set_unreachable_nodes(self, node_ids: frozenset[int]) -> None:
        """Unload the shards of nodes that no other node reaches, and load those of other nodes.

        A coordinator that cannot replicate its log answers no request.
        """
        self._unreachable_nodes = node_ids
        self.set_leaders(self._leaders)

    def set_leaders(self, leaders: Sequence[int]) -> None:
        """Set the leader of each partition of the log topic; none if the topic was deleted.

        Partitions with a new leader are loaded again from their logs before this returns: the new
        coordinator has only the state that is in the log. Partitions without a leader have no
        coordinator. Raises OSError if a partition cannot be read from disk: it has no coordinator
        until this is called again. An unreadable partition does not affect the others, as in Kafka.
        """
        self._shard_cache.clear()
        self._leaders = leaders
        if not leaders or not self._partition_count:
            # The number does not change later. If the topic grows, keys stay in their partitions
            # until the next start, as in Kafka.
            self._partition_count = len(leaders)
        self._forget_partitions(len(leaders))
        read_error = None
        for partition, leader_id in enumerate(leaders):
            shard = self._shards.get(partition)
            has_leader = leader_id >= 0 and leader_id not in self._unreachable_nodes
            if shard is not None and (shard.leader_id != leader_id or not has_leader):
                del self._shards[partition]
                shard.unload()
                shard = None
            self._idle.pop(partition, None)
            if shard is None and has_leader and partition not in self.unreadable:
                try:
                    self._load_or_postpone(partition, leader_id)
                except OSError as error:
                    read_error = error
        if read_error is not None:
            raise read_error

    def _forget_partitions(self, count: int) -> None:
        """Forget the partitions from `count` on, which the log topic does not have."""
        for partition in [p for p in self._shards if p >= count]:
            self._shards.pop(partition).unload()
        for partition in [p for p in self._idle if p >= count]:
            del self._idle[partition]
        for partition in [p for p in self.unreadable if p >= count]:
            del self.unreadable[partition]
        for partition in [p for p in self._reload_timers if p >= count]:
            self._reload_timers.pop(partition).cancel()

    def partition_for(self, key: str) -> int:
        """Return the partition of `key`, whether or not the log topic exists yet.

        If the topic grows, the number of partitions that it had when it first got leaders is used.
        """
        return partition_of(key, self._partition_count or self._configured_partition_count())

    def locate(self, key: str, node_id: int) -> ActiveShard[M]:
        """Return the shard of `key`; raises NOT_COORDINATOR unless `node_id` leads it."""
        shard = self._shard_cache.get(key)
        if shard is None:
            shard = self._find_shard(key)
        if shard.leader_id != node_id:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return shard

    def shard_for(self, key: str) -> ActiveShard[M]:
        """Return the shard of `key`, led by any node; raises NOT_COORDINATOR if there is none."""
        return self._shard_cache.get(key) or self._find_shard(key)

    def shards(self) -> Sequence[ActiveShard[M]]:
        """Return every shard, in the order of partitions, without those that were never used."""
        return [self._shards[partition] for partition in sorted(self._shards)]

    def partitions_without_shard(self) -> Sequence[int]:
        """Return the partitions that no reachable node leads, or that cannot be read."""
        known = self._shards.keys() | self._idle.keys()
        return [each for each in range(len(self._leaders)) if each not in known]

    def partitions_led_by(self, node_id: int) -> Sequence[int]:
        """Return the partitions whose coordinator is `node_id`, also those never used."""
        loaded = [each.partition for each in self._shards.values() if each.leader_id == node_id]
        idle = [partition for partition, leader_id in self._idle.items() if leader_id == node_id]
        return sorted(loaded + idle)

    def shards_led_by(self, node_id: int) -> Iterator[ActiveShard[M]]:
        """Return the shards that `node_id` leads, in the order of partitions."""
        return (shard for shard in self.shards() if shard.leader_id == node_id)

    def write(self, partition: int, decide: Decision[M, R]) -> R | Waiting[R]:
        """Run one decision on a partition's shard; see ActiveShard.write."""
        return self._loaded_shard(partition).write(decide)

    def read(self, partition: int, query: Callable[[M, int], R]) -> R:
        """Return the result of a query of a partition's machine; see ActiveShard.read."""
        return self._loaded_shard(partition).read(query)

    def reload(self, partition: int) -> None:
        """Drop the shard of a partition, and load it again from its log.

        Its soft state is lost. Waiting requests get COORDINATOR_LOAD_IN_PROGRESS. Raises KafkaError
        NOT_COORDINATOR if there is no shard.
        """
        shard = self._loaded_shard(partition)
        shard.flush()
        if self._shards.get(partition) is shard:  # a refused flush has loaded it again already
            self._drop_shard(shard, KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))

    def stop(self) -> None:
        """Unload every shard: timers stop, waiting requests are refused."""
        self.set_leaders(())

    def _loaded_shard(self, partition: int) -> ActiveShard[M]:
        shard = self._shards.get(partition)
        if shard is None and partition in self._idle:
            self._load(partition, self._idle.pop(partition))
            shard = self._shards.get(partition)
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return shard

    def _load_or_postpone(self, partition: int, leader_id: int) -> None:
        """Load a partition's shard, unless its log is empty and may be loaded later."""
        if self._is_log_empty is None or not self._is_log_empty(partition):
            self._load(partition, leader_id)
            return
        self._idle[partition] = leader_id
        timer = self._reload_timers.pop(partition, None)
        if timer is not None:
            timer.cancel()

    def _find_shard(self, key: str) -> ActiveShard[M]:
        if self._is_held:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        shard = self._loaded_shard(self.partition_for(key))
        if len(self._shard_cache) >= _MAX_CACHED_KEYS:
            self._shard_cache.clear()
        if len(key) <= _MAX_CACHED_KEY_LENGTH:
            self._shard_cache[key] = shard
        return shard

    def _load(self, partition: int, leader_id: int, *, batches_writes: bool = True) -> None:
        """Load a partition's shard; raises OSError if it cannot be read from disk.

        If the log refuses the first records of the machine, loading is tried again later.
        """
        shard = ActiveShard(
            partition=partition,
            leader_id=leader_id,
            machine=self._make_machine(leader_id),
            log=self._open_log(partition),
            serde=self._serde,
            clock=self._clock,
            history=self._history,
            carry_out=self._carry_out,
            replay_all=self._replay_all,
            window=self.window,
            drop_shard=self._drop_shard,
            batches_writes=batches_writes,
            watchers=self.watchers,
        )
        try:
            shard.load()
        except UnreadableLogError as error:
            self.unreadable[partition] = error
        except OSError:
            raise
        except KafkaError:
            shard.unload()
            self._reload_later(partition)
        except Exception as error:  # noqa: BLE001 - well-formed records may still be inconsistent
            shard.unload()
            self.unreadable[partition] = error
        else:
            self._shards[partition] = shard
            timer = self._reload_timers.pop(partition, None)
            if timer is not None:
                timer.cancel()

    def _drop_shard(self, shard: ActiveShard[M], refusal: KafkaError) -> None:
        """Drop a shard whose state is ahead of its log, and load it again from the log.

        Waiting requests are refused. If the log cannot be read, loading is tried again later; until
        then the partition has no coordinator.
        """
        partition = shard.partition
        if self._shards.get(partition) is shard:
            del self._shards[partition]
            self._shard_cache.clear()
            self._reload(partition)
        shard.unload(refusal)

    def _reload(self, partition: int) -> None:
        self._reload_timers.pop(partition, None)
        if partition in self._shards or partition in self._idle or partition in self.unreadable:
            return
        if self._leaders[partition] < 0 or self._leaders[partition] in self._unreachable_nodes:
            return
        try:
            # After a refused batch, writes are appended one by one until one succeeds.
            self._load(partition, self._leaders[partition], batches_writes=False)
        except OSError:
            self._reload_later(partition)

    def _reload_later(self, partition: int) -> None:
        timer = self._reload_timers.get(partition)
        if timer is not None:
            timer.cancel()
        deadline_ms = self._clock.now_ms() + _RELOAD_DELAY_MS
        self._reload_timers[partition] = self._clock.call_at(
            deadline_ms, lambda: self._reload(partition)
        )
