"""Recordings: what real Kafka answered in scenarios, one file for each release and module.

A scenario without a recording of an earlier release is answered as in the later one.

A line of a file has the name of a scenario, or an entry of its transcript: the title and the
answer. An answer that is equal to an earlier one of the same scenario is the number of that entry.
Of a long value the file has the digest.
"""

from __future__ import annotations

import json
import os
from functools import cache
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tests.conformance.compare import differences
from tests.conformance.scenario_cluster import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.conformance.normalization import Tree

_Scenario = TypeVar("_Scenario")

RENEW: Final = "KAFKALITE_RECORD"
"""The environment variable with which a comparison with a real Kafka writes the recordings."""

RECORDED: Final = Path(__file__).with_name("recorded")
"""The directory of the recordings, with one for each release."""

_LATER: Final[Mapping[str, str]] = {"4.3": "4.4"}
"""Release → the later one whose recordings it shares unless it has its own."""

_PART: Final = 4
"""Every fourth scenario is played on a real Kafka by each long run."""

_SAME: Final = "same as"
_LONGEST: Final = 200
"""Characters of a value that is recorded in full."""


class Recording(NamedTuple):
    """The recorded scenarios of one module, such as `scenarios/topics`, on one release of Kafka."""

    release: str
    module: str

    @property
    def path(self) -> Path:
        """Return the path of the file."""
        return RECORDED / self.release / f"{self.module}.jsonl"

    def transcripts(self) -> Mapping[str, list[Entry]]:
        """Return the transcripts by the names of their scenarios."""
        later = _LATER.get(self.release)
        inherited = {} if later is None else Recording(later, self.module).transcripts()
        return {**inherited, **_read(self.path)}

    def differences(self, scenario: str, emulated: Sequence[Entry]) -> list[str]:
        """Compare the answers of the emulator with the recorded ones, as with those of Kafka."""
        recorded = _of(self.transcripts(), scenario)
        # Most answers are equal, and nothing in them is long.
        pairs = zip_longest(recorded[: len(emulated)], emulated)
        answers = [
            given if one is not None and one.answer == given.answer else shortened([given])[0]
            for one, given in pairs
        ]
        return differences(recorded, answers)

    def check(self, scenario: str, real: Sequence[Entry]) -> list[str]:
        """Compare the answers of a real Kafka with the recorded ones, or record them.

        The last line names the command that records them.
        """
        transcripts = self.transcripts()
        answers = shortened(real)
        if os.environ.get(RENEW):
            self._record(scenario, answers)
            return []
        lines = differences(
            _of(transcripts, scenario), answers, sides=("recorded", f"Kafka {self.release}")
        )
        command = f"to record it: .venv/bin/python -m tests.conformance.record {scenario}"
        return [*lines, command] if lines else []

    def _record(self, scenario: str, answers: list[Entry]) -> None:
        recorded = {**_read(self.path)}
        recorded.pop(scenario, None)
        later = _LATER.get(self.release)
        if later is None or Recording(later, self.module).transcripts().get(scenario) != answers:
            recorded[scenario] = answers
        self._write(recorded)
        for release in (each for each, later in _LATER.items() if later == self.release):
            earlier = Recording(release, self.module)
            own = _read(earlier.path)
            if own.get(scenario) == answers:
                earlier._write({name: own[name] for name in own if name != scenario})

    def _write(self, transcripts: Mapping[str, Sequence[Entry]]) -> None:
        _read.cache_clear()
        if not transcripts:
            self.path.unlink(missing_ok=True)
            return
        lines: list[object] = []
        for name in sorted(transcripts):
            lines.append(name)
            first: dict[str, int] = {}
            for number, entry in enumerate(transcripts[name]):
                earlier = first.setdefault(_line(entry.answer), number)
                same = earlier < number and isinstance(entry.answer, dict | list)
                lines.append([entry.title, *((_SAME, earlier) if same else (entry.answer,))])
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(f"{_line(line)}\n" for line in lines))


def renewed(scenarios: Sequence[_Scenario]) -> Sequence[_Scenario]:
    """Return the scenarios to play on a real Kafka: all in order to record them, otherwise a part.

    The default run compares kafkalite with all recordings. The release of Kafka is pinned, so that
    only a change of a scenario can change what Kafka answers in it.
    """
    return scenarios if os.environ.get(RENEW) else scenarios[::_PART]


def recording_of(scenario: Callable[..., object], release: str) -> Recording:
    """Return the recording that has a scenario."""
    return Recording(release, "/".join(scenario.__module__.split(".")[2:]))


def shortened(transcript: Sequence[Entry]) -> list[Entry]:
    """Return a transcript as it is recorded: values of JSON, with digests of long ones."""
    return [Entry(entry.title, _shortened(entry.answer)) for entry in transcript]


def renamed(transcript: list[Entry], name: str, first: str) -> list[Entry]:
    """Return a transcript with the name of the first run of its scenario in place of `name`."""
    if name == first:
        return transcript
    return [
        Entry(entry.title.replace(name, first), _renamed(entry.answer, name, first))
        for entry in transcript
    ]


def _renamed(value: Tree, name: str, first: str) -> Tree:
    if isinstance(value, str):
        in_hex = name.encode().hex()
        return value.replace(name, first).replace(in_hex, first.encode().hex())
    if isinstance(value, list):
        return [_renamed(each, name, first) for each in value]
    if isinstance(value, dict):
        return {field: _renamed(each, name, first) for field, each in value.items()}
    return value


def _shortened(value: Tree) -> Tree:
    if isinstance(value, str) and len(value) > _LONGEST:
        digest = sha256(value.encode()).hexdigest()
        return f"{len(value)} characters, SHA-256 {digest}"
    if isinstance(value, list | tuple):
        return [_shortened(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _shortened(each) for name, each in value.items()}
    return value


@cache
def _read(path: Path) -> dict[str, list[Entry]]:
    if not path.exists():
        return {}
    found: dict[str, list[Entry]] = {}
    for line in path.read_text().splitlines():
        value = json.loads(line)
        if isinstance(value, str):
            transcript = found[value] = []
        else:
            title, *answer = value
            is_same = answer[0] == _SAME and len(answer) > 1
            transcript.append(Entry(title, transcript[answer[1]].answer if is_same else answer[0]))
    return found


def _of(transcripts: Mapping[str, list[Entry]], scenario: str) -> list[Entry]:
    return transcripts.get(scenario, [Entry("nothing is recorded", None)])


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
