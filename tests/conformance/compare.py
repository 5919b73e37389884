"""The differences between two transcripts, each with the path to where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conformance.normal import Tree
    from tests.conformance.world import Entry


def differences(real: list[Entry], ours: list[Entry]) -> list[str]:
    """Compare answer by answer, field by field; an empty list means alike."""
    found = []
    if len(real) != len(ours):
        found.append(f"answers: real {len(real)}, ours {len(ours)}")
    for index, (theirs, own) in enumerate(zip(real, ours, strict=False)):
        path = f"[{index}] {theirs.asked}"
        if theirs.asked != own.asked:
            found.append(f"{path}: ours went another way: {own.asked}")
            break
        found += tree_differences(path, theirs.answer, own.answer)
    return found


def tree_differences(path: str, real: Tree, ours: Tree) -> list[str]:
    """Compare two trees of plain values."""
    if isinstance(real, dict) and isinstance(ours, dict):
        found = []
        for name in sorted(real.keys() | ours.keys()):
            if name not in real or name not in ours:
                here = ours.get(name, "(absent)") if name not in real else "(absent)"
                found.append(f"{path}.{name}: real {real.get(name, '(absent)')!r}, ours {here!r}")
            else:
                found += tree_differences(f"{path}.{name}", real[name], ours[name])
        return found
    if isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        return [
            difference
            for index, (theirs, own) in enumerate(zip(real, ours, strict=True))
            for difference in tree_differences(f"{path}[{_row_name(theirs, index)}]", theirs, own)
        ]
    return [] if real == ours else [f"{path}: real {real!r}, ours {ours!r}"]


def _row_name(row: Tree, index: int) -> str:
    if isinstance(row, dict):
        for name in ("name", "topic", "resource_name", "group_id", "api_key"):
            if isinstance(row.get(name), str | int):
                return str(row[name])
    return str(index)
