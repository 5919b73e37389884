"""Fault rules: the requests and rows that a fault selects, the condition to fire, and the effect.

A rule is data. It is parsed from JSON, and every error names the field and the allowed values.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import api_name
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.ports.entropy import Entropy

T = TypeVar("T")

MAX_DELAY_MS: Final = 24 * 60 * 60 * 1000
"""The maximum delay; a rule with a longer delay is refused."""
MAX_NAME_CHARACTERS: Final = 32_767
"""The maximum length of a name, because a string in a request has at most as many bytes."""
MAX_COUNT: Final = 1_000_000_000
MAX_NODE: Final = 2**31 - 1
MAX_PARTITION: Final = 2**31 - 1

_PROBABILITY_RESOLUTION: Final = 1_000_000
"""Probabilities are multiples of 1 / _PROBABILITY_RESOLUTION."""
_MAX_QUOTED_CHARACTERS: Final = 40
"""The maximum number of characters of a wrong value that an error quotes."""


class FaultError(ValueError):
    """A fault that cannot be added or found; the text is one sentence."""


class UnknownFaultError(FaultError):
    """There is no fault with this id."""


class Disconnect(StrEnum):
    """The moment at which a connection is closed: before or after the handling of a request."""

    BEFORE = "before"
    """The request is not handled."""
    AFTER = "after"
    """The request is handled, but the answer is not sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The requests that a fault selects: those that match every field that is set.

    If a request has rows for the topics, partitions, groups or transactional ids, a row must match.
    """

    api: ApiKey | None = None
    client_id: str | None = None
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    """The index of a partition, of `topic` if that is set."""
    transactional_id: str | None = None
    node: int | None = None
    listener: str | None = None
    """The name of a listener in upper case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """The selected requests for which a fault fires; by default all of them.

    The first `after` requests are skipped. Of the following ones the fault fires for every
    `every`-th, with the given probability, and at most `times` times.
    """

    after: int = 0
    every: int = 1
    times: int | None = None
    probability: float = 1.0

    def fires(self, matches: int, firings: int, entropy: Entropy) -> bool:
        """Return whether the fault fires for its `matches`-th request, counted from 1."""
        position = matches - self.after
        if position <= 0 or position % self.every:
            return False
        if self.times is not None and firings >= self.times:
            return False
        return (
            self.probability >= 1
            or entropy.integer(_PROBABILITY_RESOLUTION) < self.probability * _PROBABILITY_RESOLUTION
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """The effect on a request: a delay, and then an error or a disconnection.

    The error is for the rows that match, or for the request if none of the fields selects rows.
    With only a delay, the request is handled as usual afterwards.
    """

    error: ErrorCode | None = None
    delay_ms: int = 0
    disconnect: Disconnect | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault as requested: match, trigger and action."""

    match: Match
    trigger: Trigger
    action: Action


# Parsing


def parse_rule(body: object) -> Rule:
    """Return the rule that a JSON value describes; raises FaultError for an invalid one."""
    fault = _parse_object("a fault", body, ("match", "trigger", "action"))
    if "action" not in fault:
        raise FaultError('a fault needs an action, such as {"error": "NOT_ENOUGH_REPLICAS"}')
    return Rule(
        _parse_match(fault.get("match", {})),
        _parse_trigger(fault.get("trigger", {})),
        _parse_action(fault["action"]),
    )


def _parse_match(value: object) -> Match:
    match = _parse_object("match", value, _field_names(Match))
    api, node, partition = match.get("api"), match.get("node"), match.get("partition")
    listener = _parse_text("match.listener", match.get("listener"))
    return Match(
        api=None if api is None else _parse_api(api),
        client_id=_parse_text("match.client_id", match.get("client_id")),
        group=_parse_text("match.group", match.get("group")),
        topic=_parse_text("match.topic", match.get("topic")),
        partition=None
        if partition is None
        else _parse_integer("match.partition", partition, 0, MAX_PARTITION),
        transactional_id=_parse_text("match.transactional_id", match.get("transactional_id")),
        node=None if node is None else _parse_integer("match.node", node, 0, MAX_NODE),
        listener=None if listener is None else listener.upper(),
    )


def _parse_trigger(value: object) -> Trigger:
    trigger = _parse_object("trigger", value, (*_field_names(Trigger), "nth"))
    if "nth" in trigger:
        if len(trigger) > 1:
            raise FaultError("trigger.nth cannot be combined with other fields of trigger")
        return Trigger(after=_parse_integer("trigger.nth", trigger["nth"], 1) - 1, times=1)
    times = trigger.get("times")
    return Trigger(
        after=_parse_integer("trigger.after", trigger.get("after", 0), 0),
        every=_parse_integer("trigger.every", trigger.get("every", 1), 1),
        times=None if times is None else _parse_integer("trigger.times", times, 1),
        probability=_parse_probability(trigger.get("probability", 1)),
    )


def _parse_action(value: object) -> Action:
    action = _parse_object("action", value, _field_names(Action))
    error, disconnect = action.get("error"), action.get("disconnect")
    if "error" in action and "disconnect" in action:
        raise FaultError("action must not have both error and disconnect")
    if not action:
        raise FaultError(f"action needs at least one of these: {', '.join(_field_names(Action))}")
    delay_ms = 0
    if "delay_ms" in action:
        delay_ms = _parse_integer("action.delay_ms", action["delay_ms"], 1, MAX_DELAY_MS)
    return Action(
        error=_parse_error(error) if "error" in action else None,
        delay_ms=delay_ms,
        disconnect=_parse_disconnect(disconnect) if "disconnect" in action else None,
    )


def _field_names(kind: type[Match | Trigger | Action]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def _parse_object(field: str, value: object, allowed: Iterable[str]) -> Mapping[str, object]:
    names = tuple(allowed)
    if not isinstance(value, dict):
        raise FaultError(f"{field} must be a JSON object with these fields: {', '.join(names)}")
    for name in value:
        if name not in names:
            raise FaultError(
                f"{field} has no field {_quote(name)}; its fields are {', '.join(names)}"
            )
    return value


def _parse_text(field: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARACTERS or not _is_unicode(value):
        raise FaultError(f"{field} must be text of at most {MAX_NAME_CHARACTERS} characters")
    return value


def _is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogates, which JSON allows but requests do not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_integer(field: str, value: object, minimum: int, maximum: int = MAX_COUNT) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        raise FaultError(
            f"{field} must be a whole number from {minimum} to {maximum}, not {_quote(value)}"
        )
    return value


def _parse_probability(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= 1:  # type: ignore[operator]  # it is a number
        raise FaultError(
            f"trigger.probability must be a number above 0 and at most 1, not {_quote(value)}"
        )
    return float(value)  # type: ignore[arg-type]  # the same


def _parse_api(value: object) -> ApiKey:
    return _parse_name(
        "match.api", value, "an API of Kafka", {api_name(key): key for key in ApiKey}
    )


def _parse_error(value: object) -> ErrorCode:
    codes = {code.name: code for code in ErrorCode if code is not ErrorCode.NONE}
    return _parse_name("action.error", value, "an error of Kafka", codes)


def _parse_disconnect(value: object) -> Disconnect:
    if value is True:
        return Disconnect.BEFORE
    if isinstance(value, str) and value in tuple(Disconnect):
        return Disconnect(value)
    raise FaultError(f'action.disconnect must be true, "before" or "after", not {_quote(value)}')


def _parse_name(field: str, value: object, kind: str, known: Mapping[str, T]) -> T:
    """Return the value of this name; raises FaultError with similar names if there is none."""
    if not isinstance(value, str):
        raise FaultError(f"{field} must be the name of {kind}, not {_quote(value)}")
    if value in known:
        return known[value]
    from difflib import get_close_matches  # noqa: PLC0415 - for mistakes only

    normalized_names = {name.replace("_", "").lower(): name for name in known}
    similar = get_close_matches(
        value[:_MAX_QUOTED_CHARACTERS].replace("_", "").lower(), normalized_names, cutoff=0.6
    )
    hint = (
        f"; similar names are {', '.join(normalized_names[each] for each in similar)}"
        if similar
        else ""
    )
    raise FaultError(f"{field} {_quote(value)} is not {kind}{hint}")


def _quote(value: object) -> str:
    return repr(value if not isinstance(value, str) else value[:_MAX_QUOTED_CHARACTERS])[
        : _MAX_QUOTED_CHARACTERS + 2
    ]


# Formatting


def rule_to_json(rule: Rule) -> dict[str, dict[str, object]]:
    """Return the JSON representation of a rule, without default values; it can be parsed again."""
    match, trigger, action = rule.match, rule.trigger, rule.action
    return {
        "match": {
            name: value for name, value in _match_to_json(match).items() if value is not None
        },
        "trigger": _without_defaults(trigger, Trigger()),
        "action": _without_defaults(action, Action())
        | ({} if action.error is None else {"error": action.error.name}),
    }


def _match_to_json(match: Match) -> dict[str, object]:
    json_values: dict[str, object] = {name: getattr(match, name) for name in _field_names(Match)}
    if match.api is not None:
        json_values["api"] = api_name(match.api)
    return json_values


def _without_defaults(value: Trigger | Action, default: Trigger | Action) -> dict[str, object]:
    return {
        name: field
        for name in _field_names(type(value))
        if (field := getattr(value, name)) != getattr(default, name)
    }


def describe_rule(rule: Rule) -> str:
    """Return a rule in one line, such as "api=Produce topic=orders; error=NOT_LEADER…"."""
    json_values = rule_to_json(rule)
    parts = (
        " ".join(f"{name}={value}" for name, value in each.items()) for each in json_values.values()
    )
    return "; ".join(part for part in parts if part)
