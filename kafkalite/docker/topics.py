"""Topics in the variable KAFKA_CREATE_TOPICS."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.docker.properties import VariableError
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE: Final = "KAFKA_CREATE_TOPICS"
_SEPARATOR: Final = "KAFKA_CREATE_TOPICS_SEPARATOR"
_DEFAULT_SEPARATOR: Final = r"[,\n]"
_FORM: Final = "NAME:PARTITIONS:REPLICAS:CLEANUP_POLICY,…"
_POLICIES: Final = ("delete", "compact", "compact,delete", "delete,compact")
_NAME, _PARTITIONS, _REPLICAS, _POLICY = range(4)


class TopicToCreate(NamedTuple):
    """A topic that the start creates."""

    name: str
    partitions: int = 1
    policy: str | None = None
    """Its `cleanup.policy`; None for that of the broker."""
    replicas: int = 1
    configs: tuple[tuple[str, str], ...] = ()
    """Its other configurations."""

    @property
    def settings(self) -> dict[str, str]:
        """All configurations of the topic."""
        policy = {} if self.policy is None else {"cleanup.policy": self.policy}
        return {**policy, **dict(self.configs)}


def topics_to_create(environment: Mapping[str, str], nodes: int | None) -> list[TopicToCreate]:
    """Return the topics of KAFKA_CREATE_TOPICS; raises VariableError if it is invalid.

    `nodes` is the number of nodes, which limits the number of replicas; None if it is unknown.
    """
    text = environment.get(VARIABLE, "").strip()
    separator = environment.get(_SEPARATOR, "").strip() or _DEFAULT_SEPARATOR
    try:
        items = re.split(separator.replace("$'", "").strip("'").replace("\\n", "\n"), text)
    except re.error as error:
        raise VariableError(f"{_SEPARATOR} is not a regular expression: {error}") from None
    return [_topic(item.strip(), nodes) for item in items if item.strip()]


def _topic(text: str, nodes: int | None) -> TopicToCreate:
    parts = [part.strip() for part in text.split(":")]
    if not parts[_NAME] or len(parts) > _POLICY + 1:
        raise VariableError(f"{VARIABLE}: {text!r} is not a topic; valid is {_FORM}")
    partitions = _number(text, parts[_PARTITIONS:_REPLICAS], "partitions")
    replicas = _number(text, parts[_REPLICAS:_POLICY], "replicas")
    if nodes is not None and replicas > nodes:
        raise VariableError(
            f"{VARIABLE}: {text!r} has {replicas} replicas, but this container is the whole "
            f"cluster, with {nodes} node{'s' * (nodes > 1)}: set KAFKALITE_BROKERS={replicas}"
        )
    # The start script of wurstmeister/kafka passes these words on to kafka-topics.
    first, *others = "".join(parts[_POLICY:]).split() or [""]
    policy = first.removeprefix("--config=").removeprefix("cleanup.policy=")
    if policy and policy not in _POLICIES:
        raise VariableError(
            f"{VARIABLE}: {text!r} has the cleanup policy {policy!r}, which is not "
            "delete or compact"
        )
    return TopicToCreate(parts[_NAME], partitions, policy or None, replicas, _configs(text, others))


def _configs(text: str, words: list[str]) -> tuple[tuple[str, str], ...]:
    """Return the configurations in words such as `--config=retention.ms=60000`."""
    settings = []
    for word in words:
        name, equals, value = word.removeprefix("--config").removeprefix("=").partition("=")
        if word == "--config":
            continue
        if not name or not equals:
            raise VariableError(f"{VARIABLE}: {text!r} has {word!r}; valid is --config=NAME=VALUE")
        settings.append((name, value))
    return tuple(settings)


def _number(text: str, parts: list[str], what: str) -> int:
    """Return the number in a part, 1 if the part is missing."""
    number = parts[0] if parts else "1"
    if not number.isascii() or not number.isdigit() or not int(number):
        raise VariableError(f"{VARIABLE}: {text!r} has {number!r} {what}; valid is {_FORM}")
    return int(number)
