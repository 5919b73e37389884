"""Running scenarios on brokers, one after the other or concurrently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from kafkalite.config.releases import DEFAULT
from tests.conformance.compare import differences
from tests.conformance.recordings import recording_of, renamed
from tests.conformance.scenario_cluster import Entry, ScenarioCluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.testing import Broker
    from tests.oracle.target import Target

Scenario: TypeAlias = Callable[[ScenarioCluster], None]
Transcript: TypeAlias = "list[Entry] | BaseException"
"""The responses of a broker, or the exception that ended the scenario."""

_runs: Counter[tuple[str, int]] = Counter()
"""(Name of a scenario, port of a broker) → how often it ran there."""


class Listener(Protocol):
    """A broker at a port of this machine."""

    @property
    def port(self) -> int:
        """Return the port."""


class Served(NamedTuple):
    """A broker in this process, as a target of scenarios."""

    port: int


def at(broker: Broker) -> Served:
    """Return a broker in this process as a target."""
    return Served(int(broker.bootstrap_servers.rpartition(":")[2]))


def play(scenario: Scenario, target: Listener) -> list[Entry]:
    """Run a scenario on a broker and return the transcript.

    Each further run on the same broker has a name of its own, because the topics and groups of the
    runs before still exist. It is as long as the name of the first run, which the transcript has.
    """
    name = scenario.__name__.replace("_", "-")
    _runs[name, target.port] += 1
    run = str(_runs[name, target.port])
    cluster = ScenarioCluster(target.port, name if run == "1" else name[: -len(run)] + run)
    try:
        scenario(cluster)
    finally:
        cluster.close()
    return renamed(cluster.transcript, cluster.name, name)


def compared(scenario: Scenario, real: Listener, emulator: Listener, release: str = DEFAULT) -> str:
    """Run a scenario on both brokers; return the differences, and those of Kafka's recording.

    `release` is the release of the real Kafka.
    """
    answers = play(scenario, real)
    lines = differences(answers, play(scenario, emulator))
    lines += recording_of(scenario, release).check(scenario.__name__, answers)
    return "\n".join(lines)


class ConcurrentRuns:
    """Scenarios that run on two brokers at the same time, because they wait for timers.

    Together they take as long as the longest wait. `is_recorded` says whether there are recordings
    of Kafka's answers.
    """

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        real: Target,
        emulator: Target,
        *,
        is_recorded: bool = False,
    ) -> None:
        self._is_recorded = is_recorded
        self._scenarios = {scenario.__name__: scenario for scenario in scenarios}
        self._targets = (real, emulator)
        self._transcripts = self._run(scenarios)

    def differences(self, name: str, attempt: int = 1) -> list[str]:
        """Compare the transcripts of a scenario; each attempt after the first runs it again."""
        if attempt > 1:
            self._transcripts |= self._run([self._scenarios[name]])
        real, emulated = (transcript_of(played) for played in self._transcripts[name])
        lines = differences(real, emulated)
        if self._is_recorded:
            lines += recording_of(self._scenarios[name], DEFAULT).check(name, real)
        return lines

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
