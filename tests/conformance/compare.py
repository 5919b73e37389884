"""The differences between two transcripts, each with its path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.conformance.normalization import Tree
    from tests.conformance.scenario_cluster import Entry


SIDES: Final = ("real", "emulated")
"""The names of the two transcripts in the lines."""


def differences(
    real: list[Entry], emulated: list[Entry], *, sides: tuple[str, str] = SIDES
) -> list[str]:
    """Compare answer by answer, field by field; an empty list means equal."""
    lines = []
    if len(real) != len(emulated):
        lines.append(f"answers: {sides[0]} {len(real)}, {sides[1]} {len(emulated)}")
    for index, (real_entry, emulated_entry) in enumerate(zip(real, emulated, strict=False)):
        path = f"[{index}] {real_entry.title}"
        if real_entry.title != emulated_entry.title:
            lines.append(f"{path}: {sides[1]} took another path: {emulated_entry.title}")
            break
        lines += tree_differences(path, real_entry.answer, emulated_entry.answer, sides)
    return lines


def tree_differences(
    path: str, real: Tree, emulated: Tree, sides: tuple[str, str] = SIDES
) -> list[str]:
    """Compare two trees of plain values."""
    if real == emulated:
        return []
    if isinstance(real, dict) and isinstance(emulated, dict):
        lines = []
        for name in sorted(real.keys() | emulated.keys()):
            if name not in real or name not in emulated:
                one, other = (tree.get(name, "(absent)") for tree in (real, emulated))
                lines.append(_line(f"{path}.{name}", one, other, sides))
            else:
                lines += tree_differences(f"{path}.{name}", real[name], emulated[name], sides)
        return lines
    if isinstance(real, list) and isinstance(emulated, list) and len(real) == len(emulated):
        return [
            difference
            for index, (real_entry, emulated_entry) in enumerate(zip(real, emulated, strict=True))
            for difference in tree_differences(
                f"{path}[{_row_name(real_entry, index)}]", real_entry, emulated_entry, sides
            )
        ]
    return [_line(path, real, emulated, sides)]


def _line(path: str, real: Tree, emulated: Tree, sides: tuple[str, str]) -> str:
    return f"{path}: {sides[0]} {real!r}, {sides[1]} {emulated!r}"


def _row_name(row: Tree, index: int) -> str:
    if isinstance(row, dict):
        for name in ("name", "topic", "resource_name", "group_id", "api_key"):
            if isinstance(row.get(name), str | int):
                return str(row[name])
    return str(index)
