"""Scenarios: how a cluster begins, what disturbs it, and what its clients must do, as a file.

A scenario is YAML; JSON is YAML, too. `Scenario` defines its fields: the reader, the JSON Schema
and the text of a running broker follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import yaml

from kafkalite.config.broker import parse_broker_text
from kafkalite.config.default_overrides import DEFAULTS_NAMES
from kafkalite.config.definitions import ConfigError
from kafkalite.config.options import MAX_NODE_ID, MAX_SEED
from kafkalite.config.releases import emulated_release
from kafkalite.config.typed_json import About, JsonError, field_names, quote, read, to_json
from kafkalite.control.command_table import CommandError
from kafkalite.control.commands.clock import new_clock
from kafkalite.control.commands.requests import ExpectRequests
from kafkalite.control.declared_state.shape import State  # noqa: TC001 - typed_json resolves it
from kafkalite.control.declared_state.source import (
    LocatedState,
    StateError,
    state_at,
    with_state,
)
from kafkalite.control.positioned_yaml import MAX_BYTES, PositionedYaml, YamlError
from kafkalite.gateway.fault_rules import FaultError, Rule, parse_rule
from kafkalite.metadata.topic_names import invalid_name_reason
from kafkalite.server.link_rules import LinkError, LinkRule, parse_link
from kafkalite.server.settings import Settings, SettingsError, shareable_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from kafkalite.server.broker import Broker

REAL_CLOCK: Final = "real"
_EXPECTED_REQUESTS: Final = 10_000
"""The number of logged requests if a scenario expects some."""
_WIDTH: Final = 100


class ScenarioError(SettingsError):
    """A scenario that cannot be used; the text names the file, the line and the column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioStart:
    """How the cluster begins; each field is an option of a broker."""

    OMITS_DEFAULTS: ClassVar = True

    brokers: Annotated[int, About("number of nodes", minimum=1, maximum=1000)] = 1
    topics: Annotated[
        dict[str, int], About("topics to create, with their numbers of partitions", minimum=1)
    ] = field(default_factory=dict)
    config: Annotated[dict[str, object], About("settings of the brokers by Kafka's names")] = field(
        default_factory=dict
    )
    node_config: Annotated[
        dict[str, dict[str, object]], About("settings of single nodes, by node id")
    ] = field(default_factory=dict)
    controller_id: Annotated[
        int | None, About("id of a controller that is no broker", minimum=0, maximum=MAX_NODE_ID)
    ] = None
    as_version: Annotated[str | None, About("release of Kafka, or service, to emulate")] = None
    defaults: Annotated[str | None, About("default values of settings", choices=DEFAULTS_NAMES)] = (
        None
    )
    request_log: Annotated[
        int | None, About("number of requests that are logged", minimum=1, maximum=1_000_000)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioExpectations:
    """What is checked at the end."""

    OMITS_DEFAULTS: ClassVar = True

    all_faults_fired: Annotated[bool, About("every fault of the scenario must have fired")] = False
    requests: Annotated[
        tuple[ExpectRequests, ...], About("requests that clients must, or must not, have sent")
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """How a cluster begins, what disturbs it, and what is expected of its clients."""

    OMITS_DEFAULTS: ClassVar = True

    start: Annotated[ScenarioStart, About("how the cluster begins")] = ScenarioStart()
    state: Annotated[State | None, About("what the cluster contains at its start")] = None
    seed: Annotated[
        int | None,
        About("number from which all random values follow", minimum=0, maximum=MAX_SEED),
    ] = None
    clock: Annotated[
        str | None, About("clock at the start, such as manual@2026-03-01T12:00:00Z")
    ] = None
    faults: Annotated[
        tuple[Rule, ...], About("faults that are there before the first client connects")
    ] = ()
    links: Annotated[
        tuple[LinkRule, ...], About("links that are disturbed before the first client connects")
    ] = ()
    expect: Annotated[ScenarioExpectations, About("what is checked at the end")] = (
        ScenarioExpectations()
    )

    def settings(self, given: Settings) -> Settings:
        """Return settings with those of the scenario where `given` has the default."""
        start = self.start
        default = Settings()
        request_log = start.request_log
        if request_log is None and self.expect.requests:
            request_log = _EXPECTED_REQUESTS
        values = {
            "brokers": start.brokers,
            "controller_id": start.controller_id,
            "as_version": start.as_version,
            "defaults": start.defaults or default.defaults,
            "request_log": request_log,
            "seed": self.seed,
        }
        changed = {
            name: value
            for name, value in values.items()
            if getattr(given, name) == getattr(default, name)
        }
        located = self.located_state
        if located is not None and given.state is None:
            given = with_state(given._replace(**changed), located)  # type: ignore[arg-type]  # fields of Settings
            changed = {}
        of_nodes = {int(each): _texts(config) for each, config in start.node_config.items()}
        return given._replace(
            **changed,  # type: ignore[arg-type]  # fields of Settings
            topics={**start.topics, **given.topics},
            config={**_texts(start.config), **given.config},
            node_config={
                each: {**of_nodes.get(each, {}), **given.node_config.get(each, {})}
                for each in (
                    *of_nodes,
                    *(each for each in given.node_config if each not in of_nodes),
                )
            },
        )

    @property
    def located_state(self) -> LocatedState | None:
        """The state with its records and its positions, None without a text that has one."""
        return None

    def install(self, broker: Broker) -> None:
        """Add the faults and the disturbed links to a broker; raises ScenarioError."""
        broker.scenario = self
        for index, rule in enumerate(self.faults):
            try:
                broker.faults.add(rule)
            except FaultError as error:
                raise self.misfit("faults", index, error) from error
        for index, link in enumerate(self.links):
            try:
                broker.nodes.links.add(link)
            except LinkError as error:
                raise self.misfit("links", index, error) from error

    def misfit(self, part: str, index: int, error: Exception) -> ScenarioError:
        """Return the error of a rule that cannot be added to the cluster."""
        return ScenarioError(f"the scenario does not fit the cluster: {part}[{index}]: {error}")

    def clock_mode(self, given: str) -> str:
        """Return the mode of the clock: `given` unless it is the default."""
        return given if given != REAL_CLOCK or self.clock is None else self.clock


class PositionedScenario(Scenario):
    """A scenario from a text; errors name the line and the column of a rule."""

    __slots__ = ("_document", "_located_state")

    @classmethod
    def of(
        cls, scenario: Scenario, document: PositionedYaml, located: LocatedState | None
    ) -> PositionedScenario:
        """Return a scenario with the text from which it was read, and its state."""
        positioned = cls(**{each.name: getattr(scenario, each.name) for each in fields(Scenario)})
        object.__setattr__(positioned, "_document", document)
        object.__setattr__(positioned, "_located_state", located)
        return positioned

    @property
    def located_state(self) -> LocatedState | None:
        """The state with its records and its positions, if the scenario has one."""
        located: LocatedState | None = self._located_state  # type: ignore[attr-defined]
        return located

    def misfit(self, part: str, index: int, error: Exception) -> ScenarioError:
        """Return the error of a rule, with its position."""
        document: PositionedYaml = self._document  # type: ignore[attr-defined]
        rules = document.get(part)
        if rules is None:
            return super().misfit(part, index, error)
        return ScenarioError(str(rules.elements[index].error(str(error))))


def read_scenario(path: str | PathLike[str]) -> Scenario:
    """Return the scenario of a file; raises ScenarioError."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ScenarioError(f"{path}: a scenario has at most {MAX_BYTES} bytes")
        return parse_scenario(content.decode(), str(path), str(Path(path).parent))
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: no UTF-8 at byte {error.start}") from error


def parse_scenario(text: str, source: str = "scenario", directory: str = ".") -> Scenario:
    """Return the scenario of a text, whose files are relative to `directory`.

    Raises ScenarioError with the line and the column.
    """
    try:
        document = PositionedYaml.parse(source, text)
        scenario = _scenario_of(document)
        _check_values(scenario, document)
        part = document.get("state")
        located = None if part is None else state_at(part, part.value, directory)
        if located is not None:
            scenario = replace(scenario, state=located.state)
        return PositionedScenario.of(scenario, document, located)
    except (YamlError, StateError) as error:
        raise ScenarioError(str(error)) from error


def _scenario_of(document: PositionedYaml) -> Scenario:
    value = document.value
    parts: dict[str, Callable[[PositionedYaml], object]] = {
        "start": lambda each: _checked_start(read(ScenarioStart, each.value, "start")),
        "faults": lambda each: _rules(each, "faults", parse_rule),
        "links": lambda each: _rules(each, "links", parse_link),
        "expect": _expectations,
    }
    plain = value
    if isinstance(value, dict):
        others = {*parts, "state"}  # the state has a reader of its own
        plain = {name: each for name, each in value.items() if name not in others}
        unknown = next((name for name in plain if name not in field_names(Scenario)), None)
        if unknown is not None:
            known = ", ".join(field_names(Scenario))
            raise document.error(
                f"a scenario has no field {quote(unknown)}; its fields are {known}"
            )
    scenario: Scenario = _read(document, lambda: read(Scenario, plain, "a scenario"))
    for name, parse in parts.items():
        part = document.get(name)
        if part is not None:
            found = _read(part, lambda parse=parse, part=part: parse(part))  # type: ignore[misc]
            scenario = replace(scenario, **{name: found})
    return scenario


def _check_values(scenario: Scenario, document: PositionedYaml) -> None:
    """Check the texts that only the start of a broker reads; raises YamlError."""
    start = scenario.start
    checks: list[tuple[tuple[str, ...], Callable[[], object]]] = [
        (("clock",), lambda: new_clock(scenario.clock or REAL_CLOCK)),
        (("start", "as_version"), lambda: emulated_release(start.as_version)),
        *((("start", "topics", each), partial(_check_topic, each)) for each in start.topics),
        *(
            (("start", "config", name), partial(parse_broker_text, {name: value}, strict=True))
            for name, value in _texts(start.config).items()
        ),
    ]
    for path, check in checks:
        try:
            check()
        except (CommandError, ConfigError, JsonError) as error:
            raise document.error_at(path, str(error)) from error


def _check_topic(name: str) -> None:
    """Raise JsonError for an invalid name of a topic."""
    if reason := invalid_name_reason(name):
        raise JsonError(reason)


def _read(part: PositionedYaml, parse: Callable[[], Any]) -> Any:  # noqa: ANN401 - any part
    """Return what `parse` returns; raises YamlError, with the position, for an invalid value."""
    try:
        return parse()
    except (JsonError, FaultError, LinkError) as error:
        raise part.error(str(error)) from error


def _rules(part: PositionedYaml, title: str, parse: Callable[[object], Any]) -> tuple[Any, ...]:
    if not isinstance(part.value, list):
        raise JsonError(f"{title} must be a list, not {quote(part.value)}")
    return tuple(_read(each, lambda each=each: parse(each.value)) for each in part.elements)  # type: ignore[misc]


def _expectations(part: PositionedYaml) -> ScenarioExpectations:
    value = part.value
    plain = value
    if isinstance(value, dict):
        plain = {name: each for name, each in value.items() if name != "requests"}
    expectations = read(ScenarioExpectations, plain, "expect")
    requests = part.get("requests")
    if requests is None:
        return expectations

    def parse(each: object) -> ExpectRequests:
        return read(ExpectRequests, each, "an expectation")

    return replace(
        expectations, requests=_read(requests, lambda: _rules(requests, "requests", parse))
    )


def _checked_start(start: ScenarioStart) -> ScenarioStart:
    """Return a start with valid ids of nodes; raises JsonError."""
    for node_id in start.node_config:
        if not (node_id.isascii() and node_id.isdigit()):
            raise JsonError(f"node_config {quote(node_id)} must be the id of a node")
    return start


def _texts(config: dict[str, object]) -> dict[str, str]:
    """Return settings as texts: Kafka's booleans are lower case."""
    return {
        key: f"{value}".lower() if isinstance(value, bool) else f"{value}"
        for key, value in config.items()
    }


def scenario_text(scenario: Scenario) -> str:
    """Return a scenario as YAML, without default values; it can be read again."""
    shape = to_json(scenario)
    if not shape:
        return "{}\n"
    if scenario.expect.requests:
        requests = [to_json(each, omits_defaults=True) for each in scenario.expect.requests]
        shape["expect"]["requests"] = requests
    return yaml.safe_dump(
        shape, sort_keys=False, allow_unicode=True, default_flow_style=None, width=_WIDTH
    )


def present_scenario(broker: Broker) -> Scenario:
    """Return a scenario with the start of a broker, and the faults and links that it has now."""
    scenario = broker.scenario if isinstance(broker.scenario, Scenario) else Scenario()
    settings = broker.settings
    return replace(
        scenario,
        state=None,  # `kafkalite export` prints it
        start=ScenarioStart(
            brokers=settings.brokers,
            topics=dict(broker.initial_topics),
            config=dict[str, object](shareable_config(settings.config)),
            node_config={
                f"{each}": dict[str, object](shareable_config(config))
                for each, config in settings.node_config.items()
            },
            controller_id=settings.controller_id,
            as_version=settings.as_version,
            defaults=None if settings.defaults == Settings().defaults else settings.defaults,
            request_log=settings.request_log,
        ),
        seed=broker.seed,
        faults=tuple(each.rule for each in broker.faults.states()),
        links=tuple(each.rule for each in broker.nodes.links.states()),
    )


async def failures_of(broker: Broker) -> list[str]:
    """Return the expectations of a broker's scenario that are not met, each as a text."""
    scenario = broker.scenario
    if not isinstance(scenario, Scenario):
        return []
    failures = []
    if scenario.expect.all_faults_fired:
        failures += [
            f"fault {each.id} never fired: {to_json(each.rule)}"
            for each in broker.faults.states()
            if not each.firings
        ]
    for expected in scenario.expect.requests:
        within_ms = 0 if expected.within_ms is None else expected.within_ms
        result = await replace(expected, within_ms=within_ms).perform(broker)
        if not result.met:
            failures.append(result.text)
    return failures
