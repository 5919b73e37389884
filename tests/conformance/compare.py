"""The differences between two transcripts, each with its path."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conformance.normalization import Tree
    from tests.conformance.world import Entry


def differences(real: list[Entry], emulated: list[Entry]) -> list[str]:
    """Compare answer by answer, field by field; an empty list means equal."""
    lines = []
    if len(real) != len(emulated):
        lines.append(f"answers: real {len(real)}, emulated {len(emulated)}")
    for index, (real_entry, emulated_entry) in enumerate(zip(real, emulated, strict=False)):
        path = f"[{index}] {real_entry.title}"
        if real_entry.title != emulated_entry.title:
            lines.append(f"{path}: the emulator took another path: {emulated_entry.title}")
            break
        lines += tree_differences(path, real_entry.answer, emulated_entry.answer)
    return lines


def tree_differences(path: str, real: Tree, emulated: Tree) -> list[str]:
    """Compare two trees of plain values."""
    if isinstance(real, dict) and isinstance(emulated, dict):
        lines = []
        for name in sorted(real.keys() | emulated.keys()):
            if name not in real or name not in emulated:
                emulated_value = emulated.get(name, "(absent)") if name not in real else "(absent)"
                real_value = real.get(name, "(absent)")
                lines.append(f"{path}.{name}: real {real_value!r}, emulated {emulated_value!r}")
            else:
                lines += tree_differences(f"{path}.{name}", real[name], emulated[name])
        return lines
    if isinstance(real, list) and isinstance(emulated, list) and len(real) == len(emulated):
        return [
            difference
            for index, (real_entry, emulated_entry) in enumerate(zip(real, emulated, strict=True))
            for difference in tree_differences(
                f"{path}[{_row_name(real_entry, index)}]", real_entry, emulated_entry
            )
        ]
    return [] if real == emulated else [f"{path}: real {real!r}, emulated {emulated!r}"]


def _row_name(row: Tree, index: int) -> str:
    if isinstance(row, dict):
        for name in ("name", "topic", "resource_name", "group_id", "api_key"):
            if isinstance(row.get(name), str | int):
                return str(row[name])
    return str(index)
