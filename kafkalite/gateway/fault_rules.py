"""Fault rules: the requests and rows that a fault selects, the condition to fire, and the effect.

A rule is data. Each of its fields is defined once, here: the JSON of the control API, the options
of `kafkalite fault add`, the reference and the OpenAPI document follow from the three dataclasses.
`FaultFields` repeats the types for callers of `BrokerFaults.add`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, TypedDict

from kafkalite.config.typed_json import About, JsonError, field_names, quote, read, to_json
from kafkalite.metadata.topic_names import MAX_NAME_LENGTH, invalid_name_reason
from kafkalite.ports.similar_names import similar_names_hint
from kafkalite.ports.times import duration_ms
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import api_name
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.ports.entropy import Entropy

MAX_DELAY_MS: Final = 24 * 60 * 60 * 1000
"""The maximum delay; a rule with a longer delay is refused."""
MAX_NAME_CHARACTERS: Final = 32_767
"""The maximum length of a name, because a string in a request has at most as many bytes."""
_MAX_TOPIC: Final = MAX_NAME_LENGTH + 1
MAX_COUNT: Final = 1_000_000_000
MAX_NODE: Final = 2**31 - 1
MAX_PARTITION: Final = 2**31 - 1
MAX_PRODUCER_ID: Final = 2**63 - 1
MAX_VERSION: Final = 2**15 - 1

_PROBABILITY_RESOLUTION: Final = 1_000_000
"""Probabilities are multiples of 1 / _PROBABILITY_RESOLUTION."""


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


class Lost(StrEnum):
    """What is lost while the connection stays open, as in a network without answers."""

    REQUEST = "request"
    """The request is neither handled nor answered."""
    ANSWER = "answer"
    """The request is handled, but not answered."""


class AlteredBytes(StrEnum):
    """What is wrong with the bytes of an answer."""

    TRUNCATED = "truncated"
    """Half of the answer is sent, and the connection is closed."""
    PARTIAL = "partial"
    """Half of the answer is sent, and nothing more; the connection stays open."""
    CORRUPTED = "corrupted"
    """All bits after the header are inverted."""
    REORDERED = "reordered"
    """The second half of what follows the header is sent before the first half."""
    CORRUPTED_RECORDS = "corrupted_records"
    """The record batches in the answer do not have their checksums."""


def api_keys_by_name() -> Mapping[str, ApiKey]:
    """Return the keys of all APIs by Kafka's names."""
    return {api_name(key): key for key in ApiKey}


def error_codes_by_name() -> Mapping[str, ErrorCode]:
    """Return the codes of all errors by Kafka's names."""
    return {code.name: code for code in ErrorCode if code is not ErrorCode.NONE}


def _read_disconnect(where: str, value: object) -> Disconnect:
    if value is True:
        return Disconnect.BEFORE
    if isinstance(value, str) and value in tuple(Disconnect):
        return Disconnect(value)
    raise JsonError(f'{where} must be true, "before" or "after", not {quote(value)}')


def _read_lost(where: str, value: object) -> Lost:
    if isinstance(value, str) and value in tuple(Lost):
        return Lost(value)
    raise JsonError(f'{where} must be "request" or "answer", not {quote(value)}')


def _read_altered(where: str, value: object) -> AlteredBytes:
    if isinstance(value, str) and value in tuple(AlteredBytes):
        return AlteredBytes(value)
    *others, last = AlteredBytes
    raise JsonError(f"{where} must be {', '.join(others)} or {last}, not {quote(value)}")


def name_field(text: str, metavar: str = "ID") -> About:
    """Return the description of a field with a name in a request."""
    return About(text, max_length=MAX_NAME_CHARACTERS, metavar=metavar)


def _count(text: str, minimum: int = 1) -> About:
    return About(text, minimum=minimum, maximum=MAX_COUNT, metavar="N")


def _duration(text: str, alias: str) -> About:
    return About(
        text,
        minimum=1,
        maximum=MAX_DELAY_MS,
        alias=alias,
        parse=duration_ms,
        metavar="DURATION",
    )


def _version(text: str) -> About:
    return About(text, minimum=0, maximum=MAX_VERSION, metavar="N")


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The requests that a fault selects: those that match every field that is set.

    If a request has rows for the topics, partitions, groups or transactional ids, a row must match.
    """

    OMITS_DEFAULTS: ClassVar = True

    api: Annotated[
        ApiKey | None,
        About(
            "API, such as Produce [all]",
            names=api_keys_by_name,
            kind="an API of Kafka",
            metavar="NAME",
        ),
    ] = None
    min_version: Annotated[int | None, _version("lowest version of the request")] = None
    max_version: Annotated[int | None, _version("highest version of the request")] = None
    client_id: Annotated[
        str | None, name_field("client id of the request; * stands for any characters")
    ] = None
    software: Annotated[
        str | None,
        name_field(
            "name and version of the client's library, such as 'apache-kafka-java 4.*'", "NAME"
        ),
    ] = None
    principal: Annotated[
        str | None, name_field("principal of the client, such as User:alice", "NAME")
    ] = None
    group: Annotated[str | None, name_field("group that the request names")] = None
    member: Annotated[str | None, name_field("member id that the request names")] = None
    topic: Annotated[str | None, name_field("topic that the request names", "NAME")] = None
    partition: Annotated[
        int | None,
        About("partition that the request names", minimum=0, maximum=MAX_PARTITION, metavar="N"),
    ] = None
    """The index of a partition, of `topic` if that is set."""
    transactional_id: Annotated[
        str | None, name_field("transactional id that the request names")
    ] = None
    producer_id: Annotated[
        int | None,
        About(
            "producer id that the request, or the records of a Produce, name",
            minimum=0,
            maximum=MAX_PRODUCER_ID,
            metavar="N",
        ),
    ] = None
    node: Annotated[
        int | None,
        About("node that receives the request", minimum=0, maximum=MAX_NODE, metavar="ID"),
    ] = None
    listener: Annotated[str | None, name_field("listener that receives the request", "NAME")] = None
    """The name of a listener in upper case."""

    def __post_init__(self) -> None:
        if self.listener is not None:
            object.__setattr__(self, "listener", self.listener.upper())
        if self.topic == "":
            # In versions with topic ids, the field for the name is empty.
            raise FaultError("match.topic must not be empty")
        if self.topic is not None and (reason := invalid_name_reason(self.topic[:_MAX_TOPIC])):
            raise FaultError(f"match.topic selects no request, as no topic has this name: {reason}")
        if self.principal is not None and not {":", "*"} & {*self.principal}:
            raise FaultError(
                "match.principal must be a type and a name, such as User:alice, not "
                f"{quote(self.principal)}"
            )
        if self.max_version is not None and (self.min_version or 0) > self.max_version:
            raise FaultError("match.min_version must not be above match.max_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """The selected requests for which a fault fires; by default all of them.

    The first `after` requests are skipped. Of the following ones the fault fires for every
    `every`-th, with the given probability, and at most `times` times.
    """

    OMITS_DEFAULTS: ClassVar = True

    after: Annotated[int, _count("skip the first N requests", 0)] = 0
    every: Annotated[int, _count("fire for every N-th request")] = 1
    times: Annotated[int | None, _count("fire at most N times")] = None
    probability: Annotated[
        float, About("fire with this probability", above=0, maximum=1, metavar="P")
    ] = 1
    nth: Annotated[int | None, _count("fire for the N-th request only")] = None
    """Sets `after` and `times`, and is None afterwards."""

    def __post_init__(self) -> None:
        if self.nth is None:
            return
        if (self.times, self.after, self.every, self.probability) != (None, 0, 1, 1):
            raise FaultError("trigger.nth cannot be combined with other fields of trigger")
        for name, value in (("after", self.nth - 1), ("times", 1), ("nth", None)):
            object.__setattr__(self, name, value)

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
    """The effect on a request: it waits, and then it is refused, disconnected, lost or handled.

    The error is for the rows that match, or for the request if none of the fields selects rows. It
    is made true in the broker before, as `gateway.true_errors` says, unless `only_answer`.
    With only a delay, the request is handled as usual afterwards. A request that is held waits
    until the fault is released or removed. A waiting request is dropped when its connection is
    closed. With `late` it is handled nevertheless, as Kafka handles every request that it has
    received; with `late` and `disconnect`, the connection is closed before the wait.
    """

    AT_LEAST_ONE: ClassVar = True
    OMITS_DEFAULTS: ClassVar = True

    error: Annotated[
        ErrorCode | None,
        About(
            "return this error, such as NOT_ENOUGH_REPLICAS",
            names=error_codes_by_name,
            kind="an error of Kafka",
            metavar="NAME",
        ),
    ] = None
    delay_ms: Annotated[
        int, _duration("wait first, such as 500ms or 2s of the broker's clock", "delay")
    ] = 0
    delay_max_ms: Annotated[
        int,
        _duration(
            "let delays vary between the delay and this one, all equally likely", "delay_max"
        ),
    ] = 0
    delay_deviation_ms: Annotated[
        int,
        _duration(
            "let delays vary by a normal distribution with this standard deviation around the "
            "delay",
            "delay_deviation",
        ),
    ] = 0
    disconnect: Annotated[
        Disconnect | None,
        About(
            "close the connection before or after the request is handled [before]",
            read=_read_disconnect,
            schema={"enum": [True, *Disconnect]},
            choices=tuple(map(str, Disconnect)),
            implied=Disconnect.BEFORE,
        ),
    ] = None

    hold: Annotated[bool, About("wait first, until the fault is released or removed")] = False
    late: Annotated[
        bool,
        About(
            "handle a delayed or held request also if its connection is closed; with disconnect, "
            "close the connection at once"
        ),
    ] = False
    twice: Annotated[bool, About("handle the request twice; the client gets the first answer")] = (
        False
    )
    lost: Annotated[
        Lost | None,
        About(
            "keep the connection open, but lose the request, which is not handled, or its answer",
            read=_read_lost,
            schema={"enum": [*Lost]},
            choices=tuple(map(str, Lost)),
        ),
    ] = None
    answer: Annotated[
        AlteredBytes | None,
        About(
            "send half of the answer and close the connection (truncated) or keep it open "
            "(partial), invert its bytes (corrupted), swap its halves (reordered), or let the "
            "checksums of its record batches be wrong (corrupted_records)",
            read=_read_altered,
            schema={"enum": [*AlteredBytes]},
            choices=tuple(map(str, AlteredBytes)),
        ),
    ] = None
    throttle_ms: Annotated[
        int,
        _duration(
            "answer with this throttle time, and serve the connection no further request for as "
            "long",
            "throttle",
        ),
    ] = 0

    only_answer: Annotated[
        bool, About("return the error only, and do not make it true in the broker before")
    ] = False
    force: Annotated[bool, About("return the error also if Kafka never returns it for the API")] = (
        False
    )

    def __post_init__(self) -> None:
        ends = {
            "error": self.error is not None,
            "disconnect": self.disconnect is not None,
            "twice": self.twice,
            "lost": self.lost is not None,
            "answer": self.answer is not None,
            "throttle_ms": self.throttle_ms > 0,
        }
        given = [name for name, is_given in ends.items() if is_given]
        if len(given) > 1:
            raise FaultError(f"action must not have both {given[0]} and {given[1]}")
        for name in ("only_answer", "force"):
            if getattr(self, name) and self.error is None:
                raise FaultError(f"action.{name} needs error")
        if self.hold and self.delay_ms:
            raise FaultError("action must not have both hold and delay_ms")
        self._check_delay()
        if self.answer is AlteredBytes.CORRUPTED_RECORDS and self.waits:
            raise FaultError("action.answer corrupted_records must not have hold or delay_ms")
        if self.late and not self.waits:
            raise FaultError("action.late needs delay_ms or hold")
        if self.late and self.disconnect is Disconnect.AFTER:
            raise FaultError("action.late closes the connection at once: disconnect is not after")

    def _check_delay(self) -> None:
        """Raise FaultError for a distribution of delays that has no sense."""
        varying = [name for name in ("delay_max_ms", "delay_deviation_ms") if getattr(self, name)]
        if varying and not self.delay_ms:
            raise FaultError(f"action.{varying[0]} needs delay_ms")
        if len(varying) > 1:
            raise FaultError(f"action must not have both {varying[0]} and {varying[1]}")
        if self.delay_max_ms and self.delay_max_ms < self.delay_ms:
            raise FaultError("action.delay_max_ms must not be below action.delay_ms")

    @property
    def waits(self) -> bool:
        """Whether requests wait before they are handled."""
        return self.hold or self.delay_ms > 0

    def next_delay_ms(self, entropy: Entropy) -> int:
        """Return the delay of the next request, from 0 to MAX_DELAY_MS."""
        delay_ms = self.delay_ms
        if self.delay_max_ms:
            return delay_ms + entropy.integer(self.delay_max_ms - delay_ms + 1)
        if not self.delay_deviation_ms:
            return delay_ms
        from statistics import NormalDist  # noqa: PLC0415 - rarely used

        # Never 0 or 1, for which the distribution has no value.
        quantile = (entropy.integer(_PROBABILITY_RESOLUTION) + 0.5) / _PROBABILITY_RESOLUTION
        varied_ms = round(NormalDist(delay_ms, self.delay_deviation_ms).inv_cdf(quantile))
        return min(max(varied_ms, 0), MAX_DELAY_MS)


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault as requested: match, trigger and action."""

    match: Annotated[Match, About("selection of requests; all given options must match")]
    trigger: Annotated[Trigger, About("trigger; by default every selected request")]
    action: Annotated[
        Action,
        About(
            "effect; at least one is required",
            needs='an action, such as {"error": "NOT_ENOUGH_REPLICAS"}',
        ),
    ]


@dataclass(frozen=True, slots=True)
class FaultState:
    """A fault, with the numbers of requests that it selected and those for which it fired."""

    id: Annotated[str, About("Id with which the fault can be removed.")]
    match: Annotated[
        Match, About("Fields of `match` in the rule; empty if it selects all requests.")
    ]
    trigger: Annotated[
        Trigger, About("Fields of `trigger` in the rule; empty if each selected request fires.")
    ]
    action: Annotated[Action, About("Fields of `action` in the rule.")]
    matches: Annotated[int, About("Number of requests that the rule selected.")]
    firings: Annotated[int, About("Number of requests for which the fault fired.")]
    waiting: Annotated[int, About("Number of requests that are delayed or held now.")] = 0

    @property
    def rule(self) -> Rule:
        """The rule of the fault."""
        return Rule(self.match, self.trigger, self.action)


class FaultFields(TypedDict, total=False):
    """The fields of Match, Trigger and Action, as they are written in JSON."""

    api: str | None
    min_version: int | None
    max_version: int | None
    client_id: str | None
    software: str | None
    principal: str | None
    group: str | None
    member: str | None
    topic: str | None
    partition: int | None
    transactional_id: str | None
    producer_id: int | None
    node: int | None
    listener: str | None
    after: int | None
    every: int | None
    times: int | None
    probability: float | None
    nth: int | None
    error: str | None
    delay_ms: int | None
    delay_max_ms: int | None
    delay_deviation_ms: int | None
    disconnect: bool | str | None
    hold: bool | None
    late: bool | None
    twice: bool | None
    lost: str | None
    answer: str | None
    throttle_ms: int | None
    only_answer: bool | None
    force: bool | None


def parse_rule(body: object) -> Rule:
    """Return the rule that a JSON value describes; raises FaultError for an invalid one."""
    try:
        return read(Rule, body, "a fault")
    except JsonError as error:
        raise FaultError(str(error)) from error


def rule_of(given: FaultFields) -> Rule:
    """Return the rule with these fields, of which None is like a missing one; raises FaultError."""
    parts = {"match": Match, "trigger": Trigger, "action": Action}
    body: dict[str, dict[str, object]] = {part: {} for part in parts}
    for name, value in given.items():
        part = next((each for each, kind in parts.items() if name in field_names(kind)), None)
        if part is None:
            known = [field for kind in parts.values() for field in field_names(kind)]
            raise FaultError(f"a fault has no field {quote(name)}{similar_names_hint(name, known)}")
        if value is not None:
            body[part][name] = value
    return parse_rule(body)


def rule_to_json(rule: Rule) -> dict[str, dict[str, object]]:
    """Return the JSON representation of a rule, without default values; it can be parsed again."""
    shape: dict[str, dict[str, object]] = to_json(rule)
    return shape


def describe_rule(rule: Rule) -> str:
    """Return a rule in one line, such as "api=Produce topic=orders; error=NOT_LEADER…"."""
    parts = (
        " ".join(f"{name}={value}" for name, value in each.items())
        for each in rule_to_json(rule).values()
    )
    return "; ".join(part for part in parts if part)
