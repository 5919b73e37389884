"""Comparing an answer with the recorded one, field by field, and learning from the two.

Both are walked together: what the broker invented is learnt or checked, what is masked is passed
over, and rows of lists without order are put beside those that they stand for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.replay.mapping import COUNTERS, NAMES, Kind
from kafkalite.replay.masks import Treatment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.protocol.message import Message
    from kafkalite.replay.mapping import Mapping, Scope
    from kafkalite.replay.shapes import Branch, Leaf, Shape

ABSENT = "(absent)"
"""Stands for a row that one of two answers does not have."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two messages differ."""

    path: str
    recorded: object
    target: object
    row: str = ""
    """What tells the rows apart in which it stands, such as "orders 3"."""
    meant: object = None
    """What the recorded value is at the target, where that is another one."""


def is_error(path: str) -> bool:
    """Whether a field holds an error code."""
    return path.endswith("error_code")


class Comparison:
    """Compares two messages of one shape."""

    __slots__ = ("_found", "_meaning", "_records", "_rows_within", "_teaches")

    def __init__(
        self,
        meaning: Mapping,
        records: Callable[[Scope, bytes | None, bytes | None], None],
        *,
        teaches: bool = True,
    ) -> None:
        """`teaches` says whether the two are answers to the same request, to be learnt from."""
        self._meaning = meaning
        self._records = records
        self._teaches = teaches
        self._found: list[Difference] = []
        self._rows_within: list[tuple[Branch, Any]] = []

    def compare(
        self, shape: Shape, recorded: Message, target: Message, scope: Scope
    ) -> list[Difference]:
        """Return in which fields the two differ."""
        self._found = []
        self._rows_within = []
        self._structs(shape, recorded, target, scope)
        return self._found

    def _structs(self, shape: Shape, recorded: Any, target: Any, outer: Scope) -> None:  # noqa: ANN401 - any struct
        scope = shape.scope(recorded, outer, self._meaning)
        found: list[Difference] = []
        for leaf in shape.leaves:
            theirs, ours = getattr(recorded, leaf.name), getattr(target, leaf.name)
            if not self._alike(leaf, theirs, ours, scope):
                meant = self._meant(leaf, theirs, ours, scope)
                found.append(self._difference(leaf.path, theirs, ours, meant))
                if is_error(leaf.path):
                    # One that was refused and one that was not: nothing else can be compared.
                    self._found.append(found[-1])
                    return
        self._found += found
        if Kind.TOPIC_ID in shape.kinds:
            self._name_topic(shape, recorded)
        for branch in shape.branches:
            if branch.mask.treatment is Treatment.IGNORED:
                continue
            theirs, ours = getattr(recorded, branch.name), getattr(target, branch.name)
            if branch.is_list and theirs is not None and ours is not None:
                self._rows(branch, theirs, ours, scope)
            elif theirs is None or ours is None:
                if theirs is not ours:
                    self._found.append(self._difference(branch.path, theirs, ours))
            else:
                self._structs(branch.shape, theirs, ours, scope)

    def _difference(
        self, path: str, recorded: object, target: object, meant: object = None
    ) -> Difference:
        row = " ".join(
            self._told(_key(branch, row)[1]) for branch, row in self._rows_within if branch.keys
        )
        return Difference(path, recorded, target, row, meant)

    def _told(self, name: object) -> str:
        """Return what tells a row apart as people know it: a topic by its name."""
        if isinstance(name, bytes):
            return self._meaning.topics.get(name) or uuid_to_text(name)
        return str(name)

    def _meant(self, leaf: Leaf, theirs: Any, ours: Any, scope: Scope) -> object:  # noqa: ANN401 - any value
        """Return what a counter should be at the target, None where both values say it."""
        kind = leaf.mask.kind
        if kind not in COUNTERS or not isinstance(theirs, int):
            return None
        meant = self._meaning.translate(kind, scope, theirs)
        return None if meant in (theirs, ours) else meant

    def _name_topic(self, shape: Shape, recorded: Any) -> None:  # noqa: ANN401 - any struct
        if "name" in shape.topics and "topic_id" in shape.topics:
            name, topic_id = recorded.name, recorded.topic_id
            if name and topic_id != bytes(16):
                self._meaning.topics[topic_id] = name

    def _alike(self, leaf: Leaf, theirs: Any, ours: Any, scope: Scope) -> bool:  # noqa: ANN401 - any value
        mask = leaf.mask
        treatment = mask.treatment
        if treatment is Treatment.EXACT:
            return bool(theirs == ours)
        if treatment is Treatment.IGNORED:
            return True
        if treatment is Treatment.PRESENCE:
            return _is_present(theirs) == _is_present(ours)
        if treatment is Treatment.SET:
            return sorted(theirs or ()) == sorted(ours or ())
        if treatment is Treatment.RECORDS:
            self._records(scope, theirs, ours)
            return True
        return self._stands_for(leaf, theirs, ours, scope)

    def _stands_for(self, leaf: Leaf, theirs: Any, ours: Any, scope: Scope) -> bool:  # noqa: ANN401 - any value
        kind = leaf.mask.kind
        assert kind is not None
        if kind is Kind.OPAQUE:
            return bool(theirs == ours) or self._meaning.opaque(bytes(theirs)) == bytes(ours)
        teaches = leaf.mask.teaches and self._teaches
        if not leaf.is_list:
            if theirs is None or ours is None:
                return theirs is ours
            return self._meaning.meet(kind, scope, theirs, ours, teaches=teaches)
        if len(theirs or ()) != len(ours or ()):
            return False
        translated = [self._meaning.translate(kind, scope, value) for value in theirs or ()]
        return sorted(translated, key=repr) == sorted(ours or (), key=repr)

    def _rows(
        self, branch: Branch, theirs: Sequence[Any], ours: Sequence[Any], scope: Scope
    ) -> None:
        if branch.keys:
            pairs = self._paired(branch, theirs, ours, scope)
        else:
            longest = max(len(theirs), len(ours))
            pairs = [(_at(theirs, position), _at(ours, position)) for position in range(longest)]
        for recorded, target in pairs:
            if recorded is not None and target is not None:
                self._rows_within.append((branch, recorded))
                self._structs(branch.shape, recorded, target, scope)
                self._rows_within.pop()
            elif not (
                self._is_optional(branch) and _tells_no_error(branch.shape, recorded or target)
            ):
                self._found.append(
                    self._difference(
                        branch.path,
                        ABSENT if recorded is None else _summary(branch, recorded),
                        ABSENT if target is None else _summary(branch, target),
                    )
                )

    def _is_optional(self, branch: Branch) -> bool:
        """Whether a row may be in one answer alone, as long as it tells no error."""
        return branch.is_optional or (branch.name == _NODES and self._meaning.nodes is not None)

    def _paired(
        self, branch: Branch, theirs: Sequence[Any], ours: Sequence[Any], scope: Scope
    ) -> list[tuple[Any, Any]]:
        """Put rows beside those that they stand for; None where there is none."""
        left: dict[tuple[object, ...], list[Any]] = {}
        for row in ours:
            left.setdefault(_key(branch, row), []).append(row)
        pairs: list[tuple[Any, Any]] = []
        strangers: list[Any] = []
        for row in theirs:
            found = left.get(self._key(branch, row, scope))
            if found:
                pairs.append((row, found.pop(0)))
            elif self._is_stranger(branch, row):
                strangers.append(row)
            else:
                pairs.append((row, None))
        rest = [row for rows in left.values() for row in rows]
        # Whom nobody named yet is whoever is left, in their order.
        for position, row in enumerate(strangers):
            pairs.append((row, _at(rest, position)))
        return pairs + [(None, row) for row in rest[len(strangers) :]]

    def _key(self, branch: Branch, row: Any, scope: Scope) -> tuple[object, ...]:  # noqa: ANN401 - any struct
        """Return what tells a recorded row apart, in the target's words."""
        for leaf in branch.shape.leaves:
            if leaf.name in branch.keys and leaf.mask.kind is not None:
                break
        else:
            return _key(branch, row)
        if branch.is_composite:
            return tuple(
                self._meaning.translate(leaf.mask.kind, scope, getattr(row, leaf.name))
                if leaf.mask.kind
                else getattr(row, leaf.name)
                for leaf in branch.shape.leaves
                if leaf.name in branch.keys
            )
        name, value = _key(branch, row)
        kind = next(leaf.mask.kind for leaf in branch.shape.leaves if leaf.name == name)
        if kind is None or value is None:
            return name, value
        assert isinstance(value, str | int | bytes)
        return name, self._meaning.translate(kind, scope, value)

    def _is_stranger(self, branch: Branch, row: Any) -> bool:  # noqa: ANN401 - any struct
        if branch.is_composite:
            return False
        name, value = _key(branch, row)
        for leaf in branch.shape.leaves:
            if leaf.name == name and leaf.mask.kind in NAMES:
                assert isinstance(value, str | int | bytes)
                assert leaf.mask.kind is not None
                return not self._meaning.knows(leaf.mask.kind, value)
        return False


def _key(branch: Branch, row: Any) -> tuple[object, ...]:  # noqa: ANN401 - any struct
    if branch.is_composite:
        return tuple(getattr(row, name) for name in branch.keys)
    for name in branch.keys:
        value = getattr(row, name)
        if value not in (None, "", _NO_ID):
            return name, value
    return branch.keys[-1], getattr(row, branch.keys[-1])


_NO_ID = bytes(16)
_NODES = "brokers"


def _at(rows: Sequence[Any], position: int) -> Any:  # noqa: ANN401 - any struct
    return rows[position] if position < len(rows) else None


def _is_present(value: object) -> bool:
    return value is not None and value not in ("", -1, b"", [])


def _tells_no_error(shape: Shape, row: Any) -> bool:  # noqa: ANN401 - any struct
    if any(leaf.name == "error_code" and getattr(row, leaf.name) for leaf in shape.leaves):
        return False
    return all(
        _tells_no_error(branch.shape, inner)
        for branch in shape.branches
        if branch.is_list
        for inner in getattr(row, branch.name) or ()
    )


def _summary(branch: Branch, row: Any) -> str:  # noqa: ANN401 - any struct
    """Name a row by what tells it apart, and by its error if it has one."""
    names = [name for name in (*branch.keys, "error_code") if hasattr(row, name)]
    told = [f"{name}={_plain(getattr(row, name))}" for name in names]
    return " ".join(told) or repr(row)


def _plain(value: object) -> str:
    return uuid_to_text(value) if isinstance(value, bytes) else repr(value)
