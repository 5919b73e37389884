"""Field-by-field comparison of a target's response with the recorded response.

`Comparison` walks both responses together. It compares fields by the rules of `field_rules`, pairs
the rows of unordered lists by their keys, and adds the ids that the brokers generated to the
`IdMapping`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafkalite.lab.replay.comparison.field_rules import Treatment
from kafkalite.lab.replay.rewriting.id_mapping import COUNTER_KINDS, ID_KINDS, ValueKind
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.lab.replay.comparison.shapes import Branch, Leaf, Shape
    from kafkalite.lab.replay.rewriting.id_mapping import IdMapping, Scope
    from kafkalite.protocol.message import Message

ABSENT = "(absent)"
"""Stands for a row that only the other response has."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two messages differ."""

    path: str
    recorded: object
    target: object
    row: str = ""
    """The keys of the rows that contain the field, such as "orders 3"."""
    expected: object = None
    """The recorded counter translated for the target; None if it equals one of the two values."""
    rows: tuple[tuple[Any, Any], ...] = field(default=(), compare=False, repr=False)
    """The rows that contain the field, outermost first: (recorded, target); None if absent."""


def is_error_code(path: str) -> bool:
    """Whether the field at a path holds an error code."""
    return path.endswith("error_code")


class Comparison:
    """Compares two messages of one shape."""

    __slots__ = ("_differences", "_mapping", "_on_records", "_row_path")

    def __init__(
        self,
        mapping: IdMapping,
        on_records: Callable[[Scope, bytes | None, bytes | None], None],
    ) -> None:
        """`on_records` is called with a partition's recorded batches and those of the target."""
        self._mapping = mapping
        self._on_records = on_records

        self._differences: list[Difference] = []
        self._row_path: list[tuple[Branch, Any, Any]] = []

    def compare(
        self, shape: Shape, recorded: Message, target: Message, scope: Scope
    ) -> list[Difference]:
        """Return the fields in which two messages differ."""
        self._differences = []
        self._row_path = []
        self._compare_structs(shape, recorded, target, scope)
        return self._differences

    def _compare_structs(self, shape: Shape, recorded: Any, target: Any, outer: Scope) -> None:  # noqa: ANN401 - any struct
        scope = shape.scope(recorded, outer, self._mapping)
        differences: list[Difference] = []
        for leaf in shape.leaves:
            recorded_value, target_value = getattr(recorded, leaf.name), getattr(target, leaf.name)
            if not self._values_match(leaf, recorded_value, target_value, scope):
                expected = self._expected_value(leaf, recorded_value, target_value, scope)
                differences.append(
                    self._difference(leaf.path, recorded_value, target_value, expected)
                )
                if is_error_code(leaf.path):
                    # If the error of a struct differs, its other fields are not comparable.
                    self._differences.append(differences[-1])
                    return
        self._differences += differences
        if ValueKind.TOPIC_ID in shape.kinds:
            self._learn_topic_name(shape, recorded)
        for branch in shape.branches:
            if branch.rule.treatment is Treatment.IGNORED:
                continue
            recorded_value, target_value = (
                getattr(recorded, branch.name),
                getattr(target, branch.name),
            )
            if branch.is_list and recorded_value is not None and target_value is not None:
                self._compare_rows(branch, recorded_value, target_value, scope)
            elif recorded_value is None or target_value is None:
                if recorded_value is not target_value:
                    self._differences.append(
                        self._difference(branch.path, recorded_value, target_value)
                    )
            else:
                self._compare_structs(branch.shape, recorded_value, target_value, scope)

    def _difference(
        self, path: str, recorded: object, target: object, expected: object = None
    ) -> Difference:
        row = " ".join(
            self._row_name(_row_key(branch, row)[1])
            for branch, row, _ in self._row_path
            if branch.keys
        )
        rows = tuple((recorded_row, target_row) for _, recorded_row, target_row in self._row_path)
        return Difference(path, recorded, target, row, expected, rows)

    def _row_name(self, name: object) -> str:
        """Return a row's key as text: the name of a topic instead of its id, if known."""
        if isinstance(name, bytes):
            return self._mapping.topic_names.get(name) or uuid_to_text(name)
        return str(name)

    def _expected_value(
        self,
        leaf: Leaf,
        recorded_value: Any,  # noqa: ANN401 - any value
        target_value: Any,  # noqa: ANN401 - any value
        scope: Scope,
    ) -> object:
        """Return the recorded counter translated for the target.

        The result is None if the field is not a counter, or if it equals one of the two values.
        """
        kind = leaf.rule.kind
        if kind not in COUNTER_KINDS or not isinstance(recorded_value, int):
            return None
        expected = self._mapping.translate(kind, scope, recorded_value)
        return None if expected in (recorded_value, target_value) else expected

    def _learn_topic_name(self, shape: Shape, recorded: Any) -> None:  # noqa: ANN401 - any struct
        if "name" in shape.topic_fields and "topic_id" in shape.topic_fields:
            name, topic_id = recorded.name, recorded.topic_id
            if name and topic_id != bytes(16):
                self._mapping.topic_names[topic_id] = name

    def _values_match(
        self,
        leaf: Leaf,
        recorded_value: Any,  # noqa: ANN401 - any value
        target_value: Any,  # noqa: ANN401 - any value
        scope: Scope,
    ) -> bool:
        rule = leaf.rule
        treatment = rule.treatment
        if treatment is Treatment.EXACT:
            return bool(recorded_value == target_value)
        if treatment is Treatment.IGNORED:
            return True
        if treatment is Treatment.PRESENCE:
            return _is_present(recorded_value) == _is_present(target_value)
        if treatment is Treatment.SET:
            return sorted(recorded_value or ()) == sorted(target_value or ())
        if treatment is Treatment.RECORDS:
            self._on_records(scope, recorded_value, target_value)
            return True
        return self._mapped_values_match(leaf, recorded_value, target_value, scope)

    def _mapped_values_match(
        self,
        leaf: Leaf,
        recorded_value: Any,  # noqa: ANN401 - any value
        target_value: Any,  # noqa: ANN401 - any value
        scope: Scope,
    ) -> bool:
        kind = leaf.rule.kind
        assert kind is not None
        if kind is ValueKind.OPAQUE:
            return bool(recorded_value == target_value) or self._mapping.translate_bytes(
                bytes(recorded_value)
            ) == bytes(target_value)

        if not leaf.is_list:
            if recorded_value is None or target_value is None:
                return recorded_value is target_value
            return self._mapping.match(
                kind, scope, recorded_value, target_value, learn=leaf.rule.is_generated
            )
        if len(recorded_value or ()) != len(target_value or ()):
            return False
        translated = [self._mapping.translate(kind, scope, value) for value in recorded_value or ()]
        return sorted(translated, key=repr) == sorted(target_value or (), key=repr)

    def _compare_rows(
        self, branch: Branch, recorded_rows: Sequence[Any], target_rows: Sequence[Any], scope: Scope
    ) -> None:
        if branch.keys:
            pairs = self._pair_rows(branch, recorded_rows, target_rows, scope)
        else:
            longest = max(len(recorded_rows), len(target_rows))
            pairs = [
                (_row_at(recorded_rows, position), _row_at(target_rows, position))
                for position in range(longest)
            ]
        for recorded, target in pairs:
            if recorded is not None and target is not None:
                self._row_path.append((branch, recorded, target))
                self._compare_structs(branch.shape, recorded, target, scope)
                self._row_path.pop()
            elif not (
                self._is_optional(branch) and _has_no_error(branch.shape, recorded or target)
            ):
                difference = self._difference(
                    branch.path,
                    ABSENT if recorded is None else _row_summary(branch, recorded),
                    ABSENT if target is None else _row_summary(branch, target),
                )
                rows = (*difference.rows, (recorded, target))
                self._differences.append(replace(difference, rows=rows))

    def _is_optional(self, branch: Branch) -> bool:
        """Whether a row without an error may occur in only one of the two responses."""
        return branch.is_optional or (
            branch.name == _BROKERS and self._mapping.node_counts is not None
        )

    def _pair_rows(
        self, branch: Branch, recorded_rows: Sequence[Any], target_rows: Sequence[Any], scope: Scope
    ) -> list[tuple[Any, Any]]:
        """Return pairs of corresponding rows; None in place of a row that has no counterpart."""
        unpaired: dict[tuple[object, ...], list[Any]] = {}
        for row in target_rows:
            unpaired.setdefault(_row_key(branch, row), []).append(row)
        pairs: list[tuple[Any, Any]] = []
        unmapped_rows: list[Any] = []
        for row in recorded_rows:
            candidates = unpaired.get(self._translated_key(branch, row, scope))
            if candidates:
                pairs.append((row, candidates.pop(0)))
            elif self._has_unmapped_id(branch, row):
                unmapped_rows.append(row)
            else:
                pairs.append((row, None))
        remaining = [row for rows in unpaired.values() for row in rows]
        # Rows whose ids are not mapped yet are paired with the remaining rows in their order.
        for position, row in enumerate(unmapped_rows):
            pairs.append((row, _row_at(remaining, position)))
        return pairs + [(None, row) for row in remaining[len(unmapped_rows) :]]

    def _translated_key(self, branch: Branch, row: Any, scope: Scope) -> tuple[object, ...]:  # noqa: ANN401 - any struct
        """Return the key of a recorded row, with ids translated to those of the target."""
        for leaf in branch.shape.leaves:
            if leaf.name in branch.keys and leaf.rule.kind is not None:
                break
        else:
            return _row_key(branch, row)
        if branch.is_composite:
            return tuple(
                self._mapping.translate(leaf.rule.kind, scope, getattr(row, leaf.name))
                if leaf.rule.kind
                else getattr(row, leaf.name)
                for leaf in branch.shape.leaves
                if leaf.name in branch.keys
            )
        name, value = _row_key(branch, row)
        kind = next(leaf.rule.kind for leaf in branch.shape.leaves if leaf.name == name)
        if kind is None or value is None:
            return name, value
        assert isinstance(value, str | int | bytes)
        return name, self._mapping.translate(kind, scope, value)

    def _has_unmapped_id(self, branch: Branch, row: Any) -> bool:  # noqa: ANN401 - any struct
        if branch.is_composite:
            return False
        name, value = _row_key(branch, row)
        for leaf in branch.shape.leaves:
            if leaf.name == name and leaf.rule.kind in ID_KINDS:
                assert isinstance(value, str | int | bytes)
                assert leaf.rule.kind is not None
                return not self._mapping.knows(leaf.rule.kind, value)
        return False


def _row_key(branch: Branch, row: Any) -> tuple[object, ...]:  # noqa: ANN401 - any struct
    if branch.is_composite:
        return tuple(getattr(row, name) for name in branch.keys)
    for name in branch.keys:
        value = getattr(row, name)
        if value not in (None, "", _NO_ID):
            return name, value
    return branch.keys[-1], getattr(row, branch.keys[-1])


_NO_ID = bytes(16)
_BROKERS = "brokers"


def _row_at(rows: Sequence[Any], position: int) -> Any:  # noqa: ANN401 - any struct
    return rows[position] if position < len(rows) else None


def _is_present(value: object) -> bool:
    return value is not None and value not in ("", -1, b"", [])


def _has_no_error(shape: Shape, row: Any) -> bool:  # noqa: ANN401 - any struct
    if any(leaf.name == "error_code" and getattr(row, leaf.name) for leaf in shape.leaves):
        return False
    return all(
        _has_no_error(branch.shape, inner)
        for branch in shape.branches
        if branch.is_list
        for inner in getattr(row, branch.name) or ()
    )


def _row_summary(branch: Branch, row: Any) -> str:  # noqa: ANN401 - any struct
    """Return a row as text: its keys and error code, or all fields of a row without keys."""
    if not branch.keys:
        return _row_fields_text(branch.shape, row)
    names = [name for name in (*branch.keys, "error_code") if hasattr(row, name)]
    return " ".join(f"{name}={_format_value(getattr(row, name))}" for name in names)


def _row_fields_text(shape: Shape, row: Any) -> str:  # noqa: ANN401 - any struct
    fields = [f"{leaf.name}={_format_value(getattr(row, leaf.name))}" for leaf in shape.leaves]
    for branch in shape.branches:
        value = getattr(row, branch.name)
        structs = value or () if branch.is_list else [] if value is None else [value]
        inner = ", ".join(_row_fields_text(branch.shape, struct) for struct in structs)
        fields.append(f"{branch.name}=[{inner}]" if branch.is_list else f"{branch.name}=({inner})")
    return " ".join(fields)


def _format_value(value: object) -> str:
    if isinstance(value, bytes | memoryview):
        return uuid_to_text(bytes(value)) if len(value) == len(_NO_ID) else bytes(value).hex()
    return repr(value)
