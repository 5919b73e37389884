"""Stored results: the JSON form of a sweep, and the file from which it can be resumed."""

from __future__ import annotations

import json
import os
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
        "notes": list(result.verdict.notes),
        "seconds": round(result.seconds, 3),
        "output": result.output,
        "timeline": [each._asdict() for each in result.timeline],
    }


def _result_of(shape: Any) -> CaseResult:  # noqa: ANN401 - JSON
    """Return the result that an object of JSON has; raises ValueError, KeyError and TypeError."""
    result = CaseResult(
        schedule=parse_schedule(shape["case"]),
        verdict=Verdict(
            outcome=Outcome(shape["outcome"]),
            reasons=tuple(shape["reasons"]),
            notes=tuple(shape.get("notes", ())),
        ),
        seconds=float(shape["seconds"]),
        output=shape["output"],
        timeline=tuple(Moment(**each) for each in shape["timeline"]),
    )
    moments = result.timeline
    lists = (*shape["reasons"], *result.verdict.notes)
    texts = [result.output, *lists, *(text for each in moments for text in each[1:])]
    if not all(isinstance(each, str) for each in texts):
        raise TypeError("a text must be a string")
    if not all(isinstance(each.at_ms, int) for each in moments):
        raise TypeError("a time must be a whole number")
    return result


class ResultFile:
    """A file of JSON lines: the options of a sweep, and the result of each case when it ends."""

    def __init__(self, path: str, options: SweepOptions) -> None:
        """Read the file if it exists.

        Raises ResumeError for one of another command, and for one that is damaged, and OSError. A
        last line that was not written to its end is removed, but only from a file of this sweep.
        """
        self._path = Path(path)
        self._command = list(options.command)
        self._options = {
            "--state": options.state,
            "--brokers": options.brokers,
            "--clock": options.clock,
            "--check": list(options.check),
        }
        self.results: list[CaseResult] = []
        """The results that the file had."""
        if self._path.exists() and not self._path.is_file():
            raise ResumeError(f"{path} is not a regular file")
        if self._path.exists() and self._path.stat().st_size:
            self._read()
        else:
            self._append({"version": _VERSION, "command": self._command, "options": self._options})

    def add(self, result: CaseResult) -> None:
        """Add a result; raises OSError."""
        self._append(result_as_json(result))

    def _append(self, shape: object) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(shape)}\n")

    def _read(self) -> None:
        data = self._path.read_bytes()
        complete = data[: data.rfind(b"\n") + 1]
        if not complete:
            raise ResumeError(f"{self._path} has no results of a sweep: it has no line")
        try:
            first, *others = [json.loads(line) for line in complete.splitlines()]
            command, version = first["command"], first["version"]
            if version == _VERSION:
                self._check_options(command, first["options"])
                self.results = [_result_of(each) for each in others]
        except ResumeError:
            raise
        except KeyError as error:
            raise ResumeError(f"{self._path} has no results of a sweep: no {error}") from error
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ResumeError(f"{self._path} has no results of a sweep: {error}") from error
        if version != _VERSION:
            raise ResumeError(f"{self._path} is of another release of kafkalite")
        if len(complete) < len(data):  # a sweep was killed while it wrote
            os.truncate(self._path, len(complete))

    def _check_options(self, command: Any, options: Any) -> None:  # noqa: ANN401 - JSON
        if command != self._command:
            raise ResumeError(f"{self._path} is of another command: {shlex.join(command)}")
        names = [name for name, value in self._options.items() if options[name] != value]
        if names:
            raise ResumeError(f"{self._path} is of a sweep with another {' and '.join(names)}")
