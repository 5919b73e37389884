"""Stored results: the JSON form of a sweep, and the file from which it can be resumed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkalite.lab.sweep.report import repeating_line
from kafkalite.lab.sweep.schedules import parse_schedule
from kafkalite.lab.sweep.sweep import CaseResult
from kafkalite.lab.sweep.timeline import Moment
from kafkalite.lab.sweep.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.lab.sweep.sweep import SweepOptions

_VERSION: Final = 1


class ResumeError(ValueError):
    """A file from which a sweep cannot be resumed; one sentence."""


def sweep_as_json(
    results: Sequence[CaseResult], options: SweepOptions, total: int
) -> dict[str, Any]:
    """Return the results of a sweep of `total` cases as an object of JSON."""
    return {
        "command": list(options.command),
        "cases": total,
        "findings": sum(each.verdict.is_finding for each in results),
        "results": [
            {**result_as_json(each), "repeat": repeating_line(each, options)} for each in results
        ],
    }


def result_as_json(result: CaseResult) -> dict[str, Any]:
    """Return a result as an object of JSON."""
    return {
        "case": result.text,
        "outcome": result.verdict.outcome.value,
        "reasons": list(result.verdict.reasons),
        "seconds": round(result.seconds, 3),
        "output": result.output,
        "timeline": [each._asdict() for each in result.timeline],
    }


def _result_of(shape: Any) -> CaseResult:  # noqa: ANN401 - JSON
    return CaseResult(
        schedule=parse_schedule(shape["case"]),
        verdict=Verdict(outcome=Outcome(shape["outcome"]), reasons=tuple(shape["reasons"])),
        seconds=shape["seconds"],
        output=shape["output"],
        timeline=tuple(Moment(**each) for each in shape["timeline"]),
    )


class ResultFile:
    """A file of JSON lines: the command of a sweep, and the result of each case when it ends."""

    def __init__(self, path: str, command: Sequence[str]) -> None:
        """Read the file if it exists.

        Raises ResumeError for one of another command, and for one that is damaged, and OSError.
        """
        self._path = Path(path)
        self._command = list(command)
        self.results: list[CaseResult] = []
        """The results that the file had."""
        if self._path.exists() and self._path.stat().st_size:
            self._read()
        else:
            self._append({"version": _VERSION, "command": self._command})

    def add(self, result: CaseResult) -> None:
        """Add a result; raises OSError."""
        self._append(result_as_json(result))

    def _append(self, shape: object) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(shape)}\n")

    def _read(self) -> None:
        text = self._path.read_text(encoding="utf-8", errors="replace")
        lines = text.splitlines()
        if not text.endswith("\n"):  # a sweep was killed while it wrote
            lines.pop()
            self._path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        try:
            first, *others = [json.loads(line) for line in lines]
            command, version = first["command"], first["version"]
            if version == _VERSION:
                self.results = [_result_of(each) for each in others]
        except (ValueError, KeyError, TypeError) as error:
            raise ResumeError(f"{self._path} has no results of a sweep: {error}") from error
        if version != _VERSION:
            raise ResumeError(f"{self._path} is of another release of kafkalite")
        if command != self._command:
            raise ResumeError(f"{self._path} is of another command: {shlex.join(command)}")
