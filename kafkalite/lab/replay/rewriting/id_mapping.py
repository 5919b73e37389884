"""`IdMapping`: maps ids and counters of the recorded broker to those of the target.

Ids (of members, producers, topics, incarnations of partitions, sessions) map one to one: a recorded
id maps to the id that the target returned in its place. Counters map by a constant difference.
Offsets use the difference of the first pair of values, other counters that of the latest pair.

Generations and epochs map by the order in which the brokers returned them, for each member,
producer or partition. A broker may increase an epoch one request earlier than the other. Then one
recorded value belongs to two values of the target. If it is the latest one that the recorded client
had received, it maps to the target's latest one. If it is an earlier one, it maps to one before the
latest, so that an epoch that the recorded broker refused as old is also old at the target.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping as ReadOnly

Id = str | int | bytes


class ValueKind(Enum):
    """Kind of id or counter in a field."""

    MEMBER = "member id"
    PRODUCER_ID = "producer id"
    TOPIC_ID = "topic id"
    SESSION = "fetch session"
    CLIENT_INSTANCE = "client instance"
    SUBSCRIPTION = "telemetry subscription"
    NODE = "node"
    INCARNATION_EPOCH = "partition epoch of KIP-232"
    GROUP_EPOCH = "generation or epoch of a group"
    PRODUCER_EPOCH = "producer epoch"
    LEADER_EPOCH = "leader epoch"
    OFFSET = "offset"
    OPAQUE = "bytes of clients that may contain member ids"
    RECORDS = "record batches"


ID_KINDS = frozenset(
    (
        ValueKind.MEMBER,
        ValueKind.PRODUCER_ID,
        ValueKind.TOPIC_ID,
        ValueKind.SESSION,
        ValueKind.CLIENT_INSTANCE,
        ValueKind.SUBSCRIPTION,
        ValueKind.NODE,
        ValueKind.INCARNATION_EPOCH,
    )
)
EPOCH_KINDS = frozenset((ValueKind.GROUP_EPOCH, ValueKind.PRODUCER_EPOCH, ValueKind.LEADER_EPOCH))
COUNTER_KINDS = EPOCH_KINDS | {ValueKind.OFFSET}

_NO_ID_VALUES: ReadOnly[ValueKind, frozenset[object]] = defaultdict(
    lambda: frozenset(("", None, -1, bytes(16))),
    {ValueKind.SESSION: frozenset((0, -1)), ValueKind.SUBSCRIPTION: frozenset((0,))},
)
"""The values that mean that there is no id."""

_LOWEST_COUNTER_VALUE: ReadOnly[ValueKind, int] = defaultdict(int, {ValueKind.GROUP_EPOCH: 1})
"""The lowest normal value of a counter. Lower values have special meanings, such as joining,
leaving or unknown."""

MAX_EPOCHS = 256
"""Maximum number of stored epochs of a member, producer or partition; the oldest are dropped."""
MAX_SEARCHED_MEMBERS = 4096
"""Maximum number of members; with more, bytes of clients are not searched for member ids."""


class Scope(NamedTuple):
    """The group, partition or producer that a counter belongs to."""

    group: str | None = None
    topic: Id | None = None
    partition: int | None = None
    producer: int | None = None
    member: str | None = None

    def key(self, kind: ValueKind) -> tuple[object, ...]:
        """Return the part of the scope that identifies a counter of this kind."""
        if kind is ValueKind.GROUP_EPOCH:
            return (self.group,)
        if kind is ValueKind.PRODUCER_EPOCH:
            return (self.producer,)
        return (self.topic, self.partition)

    def history_keys(self, kind: ValueKind) -> list[tuple[object, ...]]:
        """Return the keys of the histories of an epoch: the member's first, then the group's."""
        key = self.key(kind)
        return (
            [(*key, self.member), key] if kind is ValueKind.GROUP_EPOCH and self.member else [key]
        )


class Shift(NamedTuple):
    """A counter whose values at the target differ by a constant."""

    kind: ValueKind
    scope: tuple[object, ...]
    difference: int


class _EpochHistory:
    """The epochs that the two brokers returned in the same responses."""

    __slots__ = ("_latest", "_previous_target", "_values")

    def __init__(self) -> None:
        self._previous_target: int | None = None
        """The target's epoch before its latest one."""
        self._values: dict[int, tuple[int, int]] = {}
        """Recorded epoch → the first and the last epoch of the target in its place."""
        self._latest = 0

    def add(self, recorded: int, target: int) -> None:
        _, latest = self._values.get(self._latest, (target, target))
        if latest != target:
            self._previous_target = latest
        first, _ = self._values.pop(recorded, (target, target))
        self._values[recorded] = first, target
        self._latest = recorded
        if len(self._values) > MAX_EPOCHS:
            del self._values[next(iter(self._values))]

    def values(self, recorded: int) -> tuple[int, ...]:
        """Return the epochs that the target returned in place of a recorded one."""
        return self._values.get(recorded, ())

    def translate(self, recorded: int, lowest: int, *, is_outdated: bool) -> int | None:
        """Return the target's epoch, None if the recorded broker did not return this one.

        An earlier epoch than the latest recorded one is translated to an earlier one than the
        latest of the target, if that has returned one. If `is_outdated`, it is at least `lowest`.
        """
        pair = self._values.get(recorded)
        if pair is None:
            return None
        first, last = pair
        if recorded == self._latest and not is_outdated:
            return last
        _, latest = self._values[self._latest]
        for earlier in (last, first, self._previous_target):
            if earlier is not None and earlier < latest:
                return earlier
        return latest - 1 if is_outdated and latest > lowest else first


class IdMapping:
    """Maps recorded values to those of the target. The mapping is learned during the replay."""

    def __init__(self) -> None:
        self._ids: dict[ValueKind, dict[Id, Id]] = {kind: {} for kind in ID_KINDS}
        self._histories: dict[tuple[ValueKind, tuple[object, ...]], _EpochHistory] = {}
        self._shifts: dict[tuple[ValueKind, tuple[object, ...]], int] = {}
        self.topic_names: dict[bytes, str] = {}
        """Recorded topic id → name, for the ids with a known name."""
        self.node_counts: tuple[int, int] | None = None
        """Number of nodes of the recorded cluster and of the target; None if they are equal."""
        self.changed_kinds: set[ValueKind] = set()
        """The kinds with at least one value that differs at the target."""

    def translate(
        self, kind: ValueKind, scope: Scope, value: Id, *, is_outdated: bool = False
    ) -> Id:
        """Return the target's value for a recorded value; the same value if nothing is known.

        `is_outdated` means that the recorded broker knew a later epoch.
        """
        if kind not in self.changed_kinds:
            return value
        if kind in ID_KINDS:
            return self._ids[kind].get(value, value)
        assert isinstance(value, int)
        if value < _LOWEST_COUNTER_VALUE[kind]:
            return value
        for history in self._known_histories(kind, scope):
            epoch = history.translate(value, _LOWEST_COUNTER_VALUE[kind], is_outdated=is_outdated)
            if epoch is not None:
                return epoch
        return value + self._shifts.get((kind, scope.key(kind)), 0)

    def _known_histories(self, kind: ValueKind, scope: Scope) -> list[_EpochHistory]:
        return [
            history
            for key in scope.history_keys(kind)
            if (history := self._histories.get((kind, key))) is not None
        ]

    def translate_bytes(self, data: bytes) -> bytes:
        """Return bytes of a client with member ids translated.

        Ids of different lengths stay as they are, so that length prefixes around them stay valid.
        """
        members = self._ids[ValueKind.MEMBER]
        if ValueKind.MEMBER not in self.changed_kinds or len(members) > MAX_SEARCHED_MEMBERS:
            return data
        for recorded, target in members.items():
            old, new = str(recorded).encode(), str(target).encode()
            if old != new and len(old) == len(new) and old in data:
                data = data.replace(old, new)
        return data

    def knows(self, kind: ValueKind, value: Id) -> bool:
        """Whether a recorded id is mapped."""
        return value in self._ids[kind]

    def learn(self, kind: ValueKind, recorded: Id, target: Id) -> None:
        """Map a recorded id to an id of the target."""
        self._ids[kind][recorded] = target
        if recorded != target:
            self.changed_kinds.add(kind)

    def match(
        self, kind: ValueKind, scope: Scope, recorded: Id, target: Id, *, learn: bool
    ) -> bool:
        """Return whether the target's value corresponds to the recorded value.

        With `learn`, the brokers have just generated the two values, so the pair becomes part of
        the mapping.
        """
        if kind in ID_KINDS:
            return self._match_id(kind, recorded, target, learn=learn)
        assert isinstance(recorded, int)
        assert isinstance(target, int)
        return self._match_counter(kind, scope, recorded, target, learn=learn)

    def _match_id(self, kind: ValueKind, recorded: Id, target: Id, *, learn: bool) -> bool:
        no_id_values = _NO_ID_VALUES[kind]
        if recorded in no_id_values or target in no_id_values:
            return recorded in no_id_values and target in no_id_values
        mapped = self._ids[kind].get(recorded)
        if mapped == target:
            return True
        if mapped is None and not learn:
            return True  # the recorded id has no mapping to compare with
        if learn:
            self.learn(kind, recorded, target)
        return mapped is None

    def _match_counter(
        self, kind: ValueKind, scope: Scope, recorded: int, target: int, *, learn: bool
    ) -> bool:
        lowest = _LOWEST_COUNTER_VALUE[kind]
        if recorded < lowest or target < lowest:
            return recorded == target
        key = scope.key(kind)
        shift = self._shifts.get((kind, key))
        if not learn:
            histories = self._known_histories(kind, scope)
            return target == recorded + (shift or 0) or any(
                target in history.values(recorded) for history in histories
            )
        difference = target - recorded
        if kind in EPOCH_KINDS:
            for history_key in scope.history_keys(kind):
                self._histories.setdefault((kind, history_key), _EpochHistory()).add(
                    recorded, target
                )
        elif shift is not None:
            # The first pair of offsets sets the shift; later offsets must agree with it.
            return shift == difference
        self._shifts[(kind, key)] = difference
        if difference:
            self.changed_kinds.add(kind)
        return shift is None or shift == difference

    def offset_shift(self, partition: tuple[str, int]) -> int:
        """Return the target's offset minus the recorded offset, for a partition."""
        return self._shifts.get((ValueKind.OFFSET, partition), 0)

    def shifts(self) -> list[Shift]:
        """Return the counters whose values differ at the target."""
        return [
            Shift(kind, key, difference)
            for (kind, key), difference in self._shifts.items()
            if difference
        ]
