"""Cells of scoreboards: the stored table of a client, and the comparison of two sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.conformance.compare import tree_differences
from tests.conformance.scoreboard.differences import DIFFERENCES
from tests.conformance.scoreboard.masks import masked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.clients.admin import Answer, Sweep

_DIRECTORY: Final = Path(__file__).parent / "tables"
_SEPARATOR: Final = "\t"


class Row(NamedTuple):
    """One cell as it is stored and documented."""

    name: str
    methods: str
    options: str
    outcome: str
    """`result`, `error`, or `result with errors` if some of several results are errors."""


def rows_of(sweep: Sweep) -> list[Row]:
    """Return the rows of a sweep, in the order of its calls."""
    return [
        Row(
            name,
            "; ".join(sorted(cell["calls"])),
            ", ".join(sorted({option for options in cell["calls"].values() for option in options})),
            _outcome(cell["answer"]),
        )
        for name, cell in sweep["cells"].items()
    ]


def _outcome(answer: Answer) -> str:
    if isinstance(answer, dict) and _is_error(answer):
        return "error"
    return "result with errors" if _has_error(answer) else "result"


def _is_error(answer: dict[str, Answer]) -> bool:
    return answer.get("error") not in (None, "NoError", "null")


def _has_error(answer: Answer) -> bool:
    if isinstance(answer, dict):
        is_refused = _is_error(answer) or bool(answer.get("error_code"))
        return is_refused or any(map(_has_error, answer.values()))
    if isinstance(answer, list):
        return any(map(_has_error, answer))
    return isinstance(answer, str) and answer.endswith("Error") and answer != "NoError"


def stored_rows(client: str) -> list[Row]:
    """Return the table of a client."""
    lines = (_DIRECTORY / f"{client}.tsv").read_text(encoding="utf-8").splitlines()
    return [Row(*line.split(_SEPARATOR)) for line in lines]


def store_rows(client: str, rows: list[Row]) -> None:
    """Replace the table of a client."""
    _DIRECTORY.mkdir(exist_ok=True)
    text = "".join(_SEPARATOR.join(row) + "\n" for row in rows)
    (_DIRECTORY / f"{client}.tsv").write_text(text, encoding="utf-8")


def uncovered(sweep: Sweep, excluded: Mapping[str, str]) -> list[str]:
    """Return the public methods and options that no cell calls, other than the excluded ones."""
    used: dict[str, set[str]] = {}
    for cell in sweep["cells"].values():
        for method, options in cell["calls"].items():
            used.setdefault(method, set()).update(options)
    lines = []
    for method, options in sweep["surface"].items():
        if method in excluded:
            continue
        if method not in used:
            lines.append(method)
        else:
            missing = (option for option in options if option not in used[method])
            lines += [f"{method} with {name}" for name in missing]
    return lines


def compare(client: str, real: Sweep, emulated: Sweep) -> list[str]:
    """Return the differences of two sweeps that are not listed, and listed ones that are equal."""
    lines = []
    if list(real["cells"]) != list(emulated["cells"]):
        lines.append(f"cells: real {list(real['cells'])}, emulated {list(emulated['cells'])}")
    for name in real["cells"].keys() & emulated["cells"].keys():
        found = tree_differences(
            name,
            masked(real["cells"][name]["answer"]),
            masked(emulated["cells"][name]["answer"]),
        )
        listed = DIFFERENCES[client].get(name)
        paths = () if listed is None else tuple(f"{name}{path}" for path in listed.paths)
        lines += [line for line in found if not line.startswith(paths)]
        lines += [
            f"{path}: equal, but listed as a difference"
            for path in paths
            if not any(line.startswith(path) for line in found)
        ]
    return sorted(lines)
