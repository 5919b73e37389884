"""Commands about the scenario of a broker: print what can be a scenario, and check it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kafkalite.config.typed_json import About
from kafkalite.control.command_table import Family, Row, Status, Words

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker

MET, UNMET = 200, 409


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """Whether the expectations of a scenario are met. The HTTP status is 409 if they are not."""

    met: Annotated[bool, About("Whether all expectations are met.")]
    failures: Annotated[tuple[str, ...], About("Expectations that are not met, each as a text.")]


@dataclass(frozen=True, slots=True)
class ScenarioText:
    """A scenario as YAML."""

    yaml: Annotated[str, About("The text, which `--scenario` reads.")]


@dataclass(frozen=True, slots=True)
class ShowScenario:
    """Return a scenario with the start of the broker, and its present faults and links."""

    async def perform(self, broker: Broker) -> ScenarioText:
        """Return the text."""
        from kafkalite.control.scenario import present_scenario, scenario_text  # noqa: PLC0415 - YAML

        return ScenarioText(scenario_text(present_scenario(broker)))


@dataclass(frozen=True, slots=True)
class CheckScenario:
    """Check the expectations of the scenario with which the broker was started."""

    async def perform(self, broker: Broker) -> ScenarioResult:
        """Return the expectations that are not met."""
        from kafkalite.control.scenario import failures_of  # noqa: PLC0415 - YAML

        failures = await failures_of(broker)
        return ScenarioResult(not failures, tuple(failures))


def _lines_of_text(text: ScenarioText, _: object) -> list[str]:
    return text.yaml.splitlines()


def _lines(result: ScenarioResult, _: object) -> list[str]:
    return ["all expectations are met"] if result.met else list(result.failures)


_PATH = "/v1/scenario"

COMMANDS = Family(
    (
        Row(
            ShowScenario,
            ScenarioText,
            "GET",
            _PATH,
            (Words("scenario show", "Print the faults and links of now as a scenario."),),
            _lines_of_text,
        ),
        Row(
            CheckScenario,
            ScenarioResult,
            "GET",
            f"{_PATH}/check",
            (Words("scenario check", "Check the expectations of the scenario."),),
            _lines,
            status=Status((MET, UNMET), lambda _, result: MET if result.met else UNMET),
        ),
    ),
    {"scenario": "Print and check the scenario of a running broker."},
)
