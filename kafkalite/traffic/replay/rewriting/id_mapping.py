"""`IdMapping`: maps ids and counters of the recorded broker to those of the target.

Ids (of members, producers, topics, incarnations of partitions, sessions) map one to one: a recorded
id maps to the id that the target returned in its place. Counters (generations, epochs, offsets) map
by a constant difference. Offsets use the difference of the first pair of values, other counters
that of the latest pair.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

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
COUNTER_KINDS = frozenset(
    (ValueKind.GROUP_EPOCH, ValueKind.PRODUCER_EPOCH, ValueKind.LEADER_EPOCH, ValueKind.OFFSET)
)

_NO_ID_VALUES: ReadOnly[ValueKind, frozenset[object]] = defaultdict(
    lambda: frozenset(("", None, -1, bytes(16))),
    {ValueKind.SESSION: frozenset((0, -1)), ValueKind.SUBSCRIPTION: frozenset((0,))},
)
"""The values that mean that there is no id."""

_LOWEST_COUNTER_VALUE: ReadOnly[ValueKind, int] = defaultdict(int, {ValueKind.GROUP_EPOCH: 1})
"""The lowest normal value of a counter. Lower values have special meanings, such as joining,
leaving or unknown."""

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


class Shift(NamedTuple):
    """A counter whose values at the target differ by a constant."""

    kind: ValueKind
    scope: tuple[object, ...]
    difference: int


class IdMapping:
    """Maps recorded values to those of the target. The mapping is learned during the replay."""

    def __init__(self) -> None:
        self._ids: dict[ValueKind, dict[Id, Id]] = {kind: {} for kind in ID_KINDS}
        self._counter_values: dict[tuple[ValueKind, tuple[object, ...], int], int] = {}
        self._shifts: dict[tuple[ValueKind, tuple[object, ...]], int] = {}
        self.topic_names: dict[bytes, str] = {}
        """Recorded topic id → name, for the ids with a known name."""
        self.node_counts: tuple[int, int] | None = None
        """Number of nodes of the recorded cluster and of the target; None if they are equal."""
        self.changed_kinds: set[ValueKind] = set()
        """The kinds with at least one value that differs at the target."""

    def translate(self, kind: ValueKind, scope: Scope, value: Id) -> Id:
        """Return the target's value for a recorded value; the same value if nothing is known."""
        if kind not in self.changed_kinds:
            return value
        if kind in ID_KINDS:
            return self._ids[kind].get(value, value)
        assert isinstance(value, int)
        if value < _LOWEST_COUNTER_VALUE[kind]:
            return value
        key = scope.key(kind)
        exact = self._counter_values.get((kind, key, value))
        return value + self._shifts.get((kind, key), 0) if exact is None else exact

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
        return self._match_counter(kind, scope.key(kind), recorded, target, learn=learn)

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
        self, kind: ValueKind, key: tuple[object, ...], recorded: int, target: int, *, learn: bool
    ) -> bool:
        lowest = _LOWEST_COUNTER_VALUE[kind]
        if recorded < lowest or target < lowest:
            return recorded == target
        shift = self._shifts.get((kind, key))
        if not learn:
            exact = self._counter_values.get((kind, key, recorded))
            return target in (exact, recorded + (shift or 0))
        difference = target - recorded
        if kind is not ValueKind.OFFSET:
            self._counter_values[(kind, key, recorded)] = target
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
