"""Mapping: what a broker invents, in the words of the recorded one and of the target.

Names (members, producers, topics, sessions) stand for one another as they were met: a recorded one
means what the target answered in its place. Counters (generations, epochs, offsets) keep their
distance: what the target counts is as far from what was recorded as when both were first met.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping as ReadOnly

Name = str | int | bytes


class Kind(Enum):
    """What a field names that the broker invented."""

    MEMBER = "member id"
    PRODUCER_ID = "producer id"
    TOPIC_ID = "topic id"
    SESSION = "fetch session"
    CLIENT_INSTANCE = "client instance"
    SUBSCRIPTION = "telemetry subscription"
    NODE = "node"
    GROUP_EPOCH = "generation or epoch of a group"
    PRODUCER_EPOCH = "producer epoch"
    LEADER_EPOCH = "leader epoch"
    OFFSET = "offset"
    OPAQUE = "bytes of clients that may name members"
    RECORDS = "record batches"


NAMES = frozenset(
    (
        Kind.MEMBER,
        Kind.PRODUCER_ID,
        Kind.TOPIC_ID,
        Kind.SESSION,
        Kind.CLIENT_INSTANCE,
        Kind.SUBSCRIPTION,
        Kind.NODE,
    )
)
COUNTERS = frozenset((Kind.GROUP_EPOCH, Kind.PRODUCER_EPOCH, Kind.LEADER_EPOCH, Kind.OFFSET))

_NOBODY: ReadOnly[Kind, frozenset[object]] = defaultdict(
    lambda: frozenset(("", None, -1, bytes(16))),
    {Kind.SESSION: frozenset((0, -1)), Kind.SUBSCRIPTION: frozenset((0,))},
)
"""The values of a name that stand for none."""

_FIRST: ReadOnly[Kind, int] = defaultdict(int, {Kind.GROUP_EPOCH: 1})
"""Below this a counter says something else: that there is none, or that one joins or leaves."""

MOST_OPAQUE = 4096
"""Members that bytes of clients are searched for; more are not looked for."""


class Scope(NamedTuple):
    """Whose counter it is."""

    group: str | None = None
    topic: Name | None = None
    partition: int | None = None
    producer: int | None = None
    member: str | None = None

    def of(self, kind: Kind) -> tuple[object, ...]:
        """Return what tells a counter of this kind from others of its kind."""
        if kind is Kind.GROUP_EPOCH:
            return (self.group,)
        if kind is Kind.PRODUCER_EPOCH:
            return (self.producer,)
        return (self.topic, self.partition)


class Shift(NamedTuple):
    """A counter that the target counts otherwise."""

    kind: Kind
    scope: tuple[object, ...]
    by: int


class Mapping:
    """What recorded values mean at the target; learnt while the replay goes on."""

    def __init__(self) -> None:
        self._names: dict[Kind, dict[Name, Name]] = {kind: {} for kind in NAMES}
        self._exact: dict[tuple[Kind, tuple[object, ...], int], int] = {}
        self._shift: dict[tuple[Kind, tuple[object, ...]], int] = {}
        self.topics: dict[bytes, str] = {}
        """The recorded topic ids' names, as far as they were told."""
        self.nodes: tuple[int, int] | None = None
        """How many nodes the recorded cluster and the target have, where that is not as many."""
        self.moved: set[Kind] = set()
        """The kinds of which a value is another one at the target."""

    def translate(self, kind: Kind, scope: Scope, value: Name) -> Name:
        """Return what a recorded value means at the target; itself where nothing is known."""
        if kind not in self.moved:
            return value
        if kind in NAMES:
            return self._names[kind].get(value, value)
        assert isinstance(value, int)
        if value < _FIRST[kind]:
            return value
        key = scope.of(kind)
        exact = self._exact.get((kind, key, value))
        return value + self._shift.get((kind, key), 0) if exact is None else exact

    def opaque(self, data: bytes) -> bytes:
        """Return a client's own bytes with the members named in them translated.

        Only where both names are as long, so that no length around them is touched.
        """
        members = self._names[Kind.MEMBER]
        if Kind.MEMBER not in self.moved or len(members) > MOST_OPAQUE:
            return data
        for recorded, target in members.items():
            old, new = str(recorded).encode(), str(target).encode()
            if old != new and len(old) == len(new) and old in data:
                data = data.replace(old, new)
        return data

    def knows(self, kind: Kind, value: Name) -> bool:
        """Whether a recorded name was met."""
        return value in self._names[kind]

    def tell(self, kind: Kind, recorded: Name, target: Name) -> None:
        """Learn what a recorded name means."""
        self._names[kind][recorded] = target
        if recorded != target:
            self.moved.add(kind)

    def meet(
        self, kind: Kind, scope: Scope, recorded: Name, target: Name, *, teaches: bool
    ) -> bool:
        """Return whether a value of the target stands for the recorded one.

        One that `teaches` is what the broker just made up: from then on it is what is meant.
        """
        if kind in NAMES:
            return self._meet_name(kind, recorded, target, teaches=teaches)
        assert isinstance(recorded, int)
        assert isinstance(target, int)
        return self._meet_counter(kind, scope.of(kind), recorded, target, teaches=teaches)

    def _meet_name(self, kind: Kind, recorded: Name, target: Name, *, teaches: bool) -> bool:
        nobody = _NOBODY[kind]
        if recorded in nobody or target in nobody:
            return recorded in nobody and target in nobody
        known = self._names[kind].get(recorded)
        if known == target:
            return True
        if known is None and not teaches:
            return True  # nobody told whom either of them means
        if teaches:
            self.tell(kind, recorded, target)
        return known is None

    def _meet_counter(
        self, kind: Kind, key: tuple[object, ...], recorded: int, target: int, *, teaches: bool
    ) -> bool:
        first = _FIRST[kind]
        if recorded < first or target < first:
            return recorded == target
        shift = self._shift.get((kind, key))
        if not teaches:
            exact = self._exact.get((kind, key, recorded))
            return target in (exact, recorded + (shift or 0))
        by = target - recorded
        if kind is not Kind.OFFSET:
            self._exact[(kind, key, recorded)] = target
        elif shift is not None:
            # Where a log begins is told once; a later offset that is off is a difference.
            return shift == by
        self._shift[(kind, key)] = by
        if by:
            self.moved.add(kind)
        return shift is None or shift == by

    def offset_shift(self, partition: tuple[str, int]) -> int:
        """Return by how much a partition's offsets are larger at the target."""
        return self._shift.get((Kind.OFFSET, partition), 0)

    def shifts(self) -> list[Shift]:
        """Return the counters that the target counts otherwise."""
        return [Shift(kind, key, by) for (kind, key), by in self._shift.items() if by]
