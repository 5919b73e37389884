"""Every setting is either read somewhere or in the table of settings without effect."""

from __future__ import annotations

import ast
import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.config.keys import (
    TOPIC_SYNONYMS,
    broker_keys,
    dynamic_broker_keys,
    group_config_keys,
    group_synonym,
    topic_keys,
)
from kafkalite.config.log_config import LogConfig
from kafkalite.config.unused_keys import NO_EFFECT, keys_without_effect, reason_without_effect
from tests.architecture.source import PACKAGE, hand_written_modules, nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_MODULES_WITHOUT_READS = (
    # Validates, describes and stores settings; other modules use the values.
    "config/",
    "protocol/",
    # Known differences of replays.
    "lab/replay/comparison/known_differences.py",
    # Translates environments of containers into settings.
    "docker/",
    # Settings of clients.
    "testing/client_settings.py",
    # Warnings for settings without effect.
    "server/settings.py",
)
_READ_BY_SETTINGS = frozenset(
    (
        "advertised.listeners", "broker.id", "controller.listener.names",
        "kafkalite.partition.epochs", "listeners", "log.dir", "log.dirs",
        "listener.security.protocol.map", "node.id", "unstable.feature.versions.enable",
    )
)  # fmt: skip
_READ_BY_TOPIC_SETTINGS = frozenset(("internal.segment.bytes",))
_MENTIONED_BUT_NOT_READ = frozenset(
    (
        # "….segment.bytes" is a setting of the coordinators' topics.
        "internal.metadata.log.segment.bytes", "metadata.log.segment.bytes",
        # These are settings of clients: of their logins with a token, and of TLS.
        "sasl.login.callback.handler.class", "sasl.oauthbearer.token.endpoint.url",
        "ssl.endpoint.identification.algorithm",
    )
)  # fmt: skip
"""Keys that code mentions or seems to mention but does not read."""


def _files() -> Iterator[Path]:
    for path in hand_written_modules():
        if not path.relative_to(PACKAGE).as_posix().startswith(_MODULES_WITHOUT_READS):
            yield path


def _pattern(node: ast.JoinedStr) -> str | None:
    """Return a regular expression of the possible values; None for a text without two dots."""
    parts = (
        re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+"
        for part in node.values
    )
    found = "".join(parts)
    return found if found.count("\\.") > 1 else None


def _imported_texts(node: ast.ImportFrom) -> Iterator[str]:
    """Yield the values of the imported constants of the configuration, such as names of keys."""
    if node.module is not None and node.module.startswith("kafkalite.config."):
        module = import_module(node.module)
        for alias in node.names:
            if isinstance(value := getattr(module, alias.name, None), str):
                yield value


class Mentioned(NamedTuple):
    """What code outside of the configuration mentions."""

    texts: frozenset[str]
    pattern: re.Pattern[str]
    """Matches the possible values of texts with replaced parts."""
    attributes: frozenset[str]

    def has(self, key: str) -> bool:
        return key in self.texts or self.pattern.fullmatch(key) is not None


@cache
def mentioned() -> Mentioned:
    """Return the texts with dots and the attributes in the code outside of the configuration."""
    texts: set[str] = set()
    patterns: set[str] = set()
    attributes: set[str] = set()
    for path in _files():
        for node in nodes_of(path):
            if isinstance(node, ast.Attribute):
                attributes.add(node.attr)
            elif isinstance(node, ast.Constant):
                if isinstance(node.value, str):
                    texts.add(node.value)
            elif isinstance(node, ast.ImportFrom):
                texts.update(_imported_texts(node))
            elif isinstance(node, ast.JoinedStr) and (pattern := _pattern(node)) is not None:
                patterns.add(pattern)
    return Mentioned(
        frozenset(text for text in texts if "." in text),
        re.compile("|".join(f"(?:{pattern})" for pattern in patterns)),
        frozenset(attributes),
    )


@cache
def read_keys() -> frozenset[str]:
    """Return the broker keys that code outside of the configuration mentions, or their synonyms."""
    names = mentioned()
    found = {key for key in broker_keys() if names.has(key)} - _MENTIONED_BUT_NOT_READ
    for key in group_config_keys():
        synonym = group_synonym(key)
        if synonym is not None and names.has(key):
            kind, subject = key.split(".", 1)
            bounds = (
                f"group.{kind}.{end}.{subject.removeprefix('num.')}" for end in ("min", "max")
            )
            found |= {synonym, *(bound for bound in bounds if bound in broker_keys())}
    for key, synonyms in TOPIC_SYNONYMS.items():
        field = key.replace(".", "_")
        if field in LogConfig._fields and field in names.attributes:
            found |= {synonym for synonym, _ in synonyms}
    return frozenset(found | _READ_BY_SETTINGS)


def test_every_key_is_either_read_or_in_the_table() -> None:
    without = set(keys_without_effect(broker_keys()))
    assert sorted(set(broker_keys()) - read_keys() - without) == []
    assert sorted(read_keys() & without) == []


def _is_read(key: str) -> bool:
    """Whether code outside of the configuration reads a key of a topic or a group."""
    names = mentioned()
    field = key.replace(".", "_")
    is_of_log = field in LogConfig._fields and field in names.attributes
    return is_of_log or key in _READ_BY_TOPIC_SETTINGS or names.has(key)


def _has_reason(key: str) -> bool:
    """Whether the table has the key itself, or every broker key that determines it."""
    synonyms = [name for name, _ in TOPIC_SYNONYMS.get(key, ())]
    if key in group_config_keys() and (synonym := group_synonym(key)) is not None:
        synonyms = [synonym]
    return all(reason_without_effect(each) is not None for each in synonyms or [key])


@pytest.mark.parametrize("keys", [dynamic_broker_keys, topic_keys, group_config_keys])
def test_every_dynamic_topic_and_group_key_is_either_read_or_in_the_table(
    keys: Callable[[], Mapping[str, object]],
) -> None:
    others = [key for key in keys() if key not in broker_keys() or keys is not dynamic_broker_keys]
    assert others
    assert [key for key in others if not (_is_read(key) or _has_reason(key))] == []
    both = {key for key in others if _is_read(key) and _has_reason(key)}
    assert both <= _MENTIONED_BUT_NOT_READ


@pytest.mark.parametrize("reason", NO_EFFECT)
def test_each_entry_of_the_table_is_a_key_or_a_family_of_keys(reason: str) -> None:
    for entry in NO_EFFECT[reason].split():
        pattern = re.compile(re.escape(entry).replace(r"\*", ".+"))
        every = {**broker_keys(), **dynamic_broker_keys(), **topic_keys()}
        matches = [key for key in every if pattern.fullmatch(key)]
        assert len(matches) > 1 if "*" in entry else matches == [entry], entry


def test_no_key_is_in_the_table_twice() -> None:
    entries = [entry for keys in NO_EFFECT.values() for entry in keys.split()]
    for key in keys_without_effect(broker_keys()):
        matching = [entry for entry in entries if re.fullmatch(entry.replace("*", ".+"), key)]
        assert len(matching) == 1, key


def test_keys_are_returned_as_written() -> None:
    given = ["num.io.threads", "num.partitions", "listener.name.a.ssl.provider", "own.key"]
    assert keys_without_effect(given) == ["listener.name.a.ssl.provider", "num.io.threads"]
