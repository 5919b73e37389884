"""Random faults and links from the whole vocabulary; everything follows from a seed.

A rule has random fields, each with a value that it may have.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalite.gateway.fault_rules import (
    Action,
    AlteredBytes,
    Disconnect,
    Lost,
    Match,
    Trigger,
    api_keys_by_name,
    error_codes_by_name,
)
from kafkalite.server.link_rules import Direction, LinkRule

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

DURATIONS_MS: Final = (1, 5, 20, 100, 400)
NODE_IDS: Final = (1, 2, 3)
LISTENERS: Final = ("PLAINTEXT",)


class Names(NamedTuple):
    """The names that clients use, and patterns of names."""

    apis: Sequence[str]
    """APIs of the clients; others are drawn sometimes."""
    client_ids: Sequence[str]
    software: Sequence[str]
    groups: Sequence[str]
    members: Sequence[str]
    topics: Sequence[str]
    transactional_ids: Sequence[str]


def _one_of(*values: object) -> Any:  # noqa: ANN401 - a function that draws any value
    return lambda choices, _: choices.choice(values)


def _name(field: str) -> Any:  # noqa: ANN401 - a function that draws a name
    return lambda choices, names: choices.choice(getattr(names, field))


def _api(choices: random.Random, names: Names) -> str:
    if choices.random() < 0.8:
        return choices.choice(names.apis)
    return choices.choice(sorted(api_keys_by_name()))


_DURATION: Final = _one_of(*DURATIONS_MS)

MATCH: Final[Mapping[str, Any]] = {
    "api": _api,
    "min_version": _one_of(0, 3, 9),
    "max_version": _one_of(2, 9, 12, 20),
    "client_id": _name("client_ids"),
    "software": _name("software"),
    "principal": _one_of("User:ANONYMOUS", "User:*", "User:alice"),
    "group": _name("groups"),
    "member": _name("members"),
    "topic": _name("topics"),
    "partition": _one_of(0, 1, 7),
    "transactional_id": _name("transactional_ids"),
    "producer_id": _one_of(0, 1, 2, 1_000, 2_000),
    "node": _one_of(*NODE_IDS),
    "listener": _one_of(*LISTENERS),
}
TRIGGER: Final[Mapping[str, Any]] = {
    "after": _one_of(0, 1, 3),
    "every": _one_of(1, 2, 5),
    "times": _one_of(1, 2, 10),
    "probability": _one_of(0.1, 0.5, 1),
    "nth": _one_of(1, 2, 4),
}
ACTION: Final[Mapping[str, Any]] = {
    "error": lambda choices, _: choices.choice(sorted(error_codes_by_name())),
    "delay_ms": _DURATION,
    "delay_max_ms": _DURATION,
    "delay_deviation_ms": _DURATION,
    "disconnect": _one_of(*Disconnect),
    "hold": _one_of(True),
    "late": _one_of(True),
    "twice": _one_of(True),
    "lost": _one_of(*Lost),
    "answer": _one_of(*AlteredBytes),
    "throttle_ms": _DURATION,
    "only_answer": _one_of(True),
    "force": _one_of(True),
}
LINK: Final[Mapping[str, Any]] = {
    "client_id": _name("client_ids"),
    "address": _one_of("127.0.0.1", "127.*", "10.*"),
    "node": _one_of(*NODE_IDS),
    "from_node": _one_of(*NODE_IDS),
    "direction": _one_of(*Direction),
    "cut": _one_of(True),
    "half_open": _one_of(True),
    "latency_ms": _DURATION,
    "jitter_ms": _DURATION,
    "bytes_per_second": _one_of(1_000, 100_000, 10_000_000),
}
TABLES: Final = ((Match, MATCH), (Trigger, TRIGGER), (Action, ACTION), (LinkRule, LINK))
"""Class of rules → how each of its fields is drawn."""


def fields_without_values() -> set[str]:
    """Return the fields of rules that are never drawn: none, if the tables are complete."""
    return {
        f"{kind.__name__}.{name}"
        for kind, table in TABLES
        for name in {each.name for each in fields(kind)} ^ set(table)
    }


class RandomRules:
    """A sequence of the fields of rules, many of which have no sense together."""

    def __init__(self, choices: random.Random, names: Names) -> None:
        self._choices = choices
        self._names = names

    def fault(self) -> dict[str, Any]:
        """Return the fields of the next fault."""
        return (
            self._fields(MATCH, (0, 1, 1, 1, 2, 3))
            | self._fields(TRIGGER, (0, 0, 1, 1, 2))
            | self._fields(ACTION, (1, 1, 2, 2, 3))
        )

    def link(self) -> dict[str, Any]:
        """Return the fields of the next link."""
        return self._fields(LINK, (1, 2, 3))

    def _fields(self, table: Mapping[str, Any], counts: Sequence[int]) -> dict[str, Any]:
        names = self._choices.sample(sorted(table), self._choices.choice(counts))
        return {name: table[name](self._choices, self._names) for name in names}
