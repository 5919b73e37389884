"""Running scenarios on brokers, one after the other or concurrently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

from tests.conformance.compare import differences
from tests.conformance.world import Entry, World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.oracle.target import Target

Scenario: TypeAlias = Callable[[World], None]
Transcript: TypeAlias = "list[Entry] | BaseException"
"""The responses of a broker, or the exception that ended the scenario."""

_runs: Counter[tuple[str, int]] = Counter()
"""(Name of a scenario, port of a broker) → how often it ran there."""


def play(scenario: Scenario, target: Target) -> list[Entry]:
    """Run a scenario on a broker and return the transcript.

    Each further run on the same broker has a name of its own, because the topics and groups of the
    runs before still exist.
    """
    name = scenario.__name__.replace("_", "-")
    _runs[name, target.port] += 1
    run = _runs[name, target.port]
    world = World(target.port, name if run == 1 else f"{name}-{run}")
    try:
        scenario(world)
    finally:
        world.close()
    return world.transcript


class ConcurrentRuns:
    """Scenarios that run on two brokers at the same time, because they wait for timers.

    Together they take as long as the longest wait.
    """

    def __init__(self, scenarios: Sequence[Scenario], real: Target, emulator: Target) -> None:
        self._scenarios = {scenario.__name__: scenario for scenario in scenarios}
        self._targets = (real, emulator)
        self._transcripts = self._run(scenarios)

    def differences(self, name: str, attempt: int = 1) -> list[str]:
        """Compare the transcripts of a scenario; each attempt after the first runs it again."""
        if attempt > 1:
            self._transcripts |= self._run([self._scenarios[name]])
        real, emulated = (transcript_of(played) for played in self._transcripts[name])
        return differences(real, emulated)

    def _run(self, scenarios: Sequence[Scenario]) -> dict[str, list[Transcript]]:
        plays = [(scenario, target) for scenario in scenarios for target in self._targets]
        with ThreadPoolExecutor(len(plays)) as pool:
            transcripts = pool.map(_transcript, *zip(*plays, strict=True))
            by_scenario: dict[str, list[Transcript]] = {}
            for (scenario, _), transcript in zip(plays, transcripts, strict=True):
                by_scenario.setdefault(scenario.__name__, []).append(transcript)
        return by_scenario


def transcript_of(played: Transcript) -> list[Entry]:
    """Return a transcript, or raise the exception of its scenario."""
    if isinstance(played, BaseException):
        raise played
    return played


def _transcript(scenario: Scenario, target: Target) -> Transcript:
    try:
        return play(scenario, target)
    except Exception as error:  # noqa: BLE001 - raised where this transcript is used
        return error
