"""The keys of brokers in releases of Kafka before 4.4, which differ from those of 4.4."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kafkalite.config.definitions import KeyTable
from kafkalite.config.keys import broker_keys
from kafkalite.config.tables import older

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.definitions import ConfigKey


@cache
def added_after(release: str) -> frozenset[str]:
    """Return the keys of brokers, topics and groups that later releases, up to 4.3, added."""
    number = release_number(release)
    names = " ".join(
        names for added, names in older.ADDED.items() if release_number(added) > number
    )
    return frozenset(names.split())


@cache
def removed_keys(release: str) -> Mapping[str, ConfigKey]:
    """Return the keys of brokers that a release has, and that a later one removed."""
    number = release_number(release)
    tables = []
    for span, rows in older.REMOVED.items():
        first, last = map(release_number, span.split())
        if first <= number <= last:
            tables.append(rows.replace("{protocol}", older.PROTOCOLS.get(release, "")))
    return KeyTable(*tables)


@cache
def changed_keys(release: str) -> Mapping[str, ConfigKey]:
    """Return the keys of brokers that a release describes in another way than 4.4 does."""
    number = release_number(release)
    tables = (rows for last, rows in older.CHANGED.items() if number <= release_number(last))
    return KeyTable(*tables)


@cache
def described_keys(release: str, absent: frozenset[str]) -> Mapping[str, ConfigKey]:
    """Return every key of brokers that a release describes, without the `absent` ones."""
    known = broker_keys()
    others = absent.union(older.HIDDEN.get(release, "").split())
    keys = {name: key for name, key in known.items() if name not in others}
    for name, key in changed_keys(release).items():
        if name in keys:
            keys[name] = key._replace(documentation=known[name].documentation)
    return {**keys, **removed_keys(release)}


def release_number(release: str) -> tuple[int, ...]:
    """Return the numbers of a release, for comparisons."""
    return tuple(map(int, release.split(".")))
