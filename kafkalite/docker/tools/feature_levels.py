"""Levels of features, and the names of levels of `metadata.version`, as of Kafka 4.4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.docker.tools.arguments import KafkaToolError
from kafkalite.docker.tools.running import write_line
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

METADATA_VERSION: Final = "metadata.version"
_FIRST_NAMED: Final = 7
_NAMES: Final = (
    *("3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
    *("4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1"),
    *("4.3-IV0", "4.4-IV0", "4.4-IV1", "4.4-IV2"),
)
"""Names of levels of `metadata.version`, beginning with level 7."""
METADATA_LEVELS: Final[Mapping[str, int]] = {
    name: level for level, name in enumerate(_NAMES, _FIRST_NAMED)
}
LATEST: Final = _NAMES[-1]


class _Level(NamedTuple):
    """A level that new clusters have since a level of `metadata.version`."""

    level: int
    since: str


_FEATURES: Final[Mapping[str, tuple[_Level, ...]]] = {
    "kraft.version": (_Level(1, "3.9-IV0"),),
    "transaction.version": (_Level(1, "4.0-IV2"), _Level(2, "4.0-IV2")),
    "group.version": (_Level(1, "4.0-IV0"),),
    "eligible.leader.replicas.version": (_Level(1, "4.1-IV0"),),
    "share.version": (_Level(1, "4.2-IV0"), _Level(2, "4.4-IV0")),
    "streams.version": (_Level(1, "4.2-IV1"),),
}
_DEPENDENCIES: Final[Mapping[tuple[str, int], Mapping[str, int]]] = {
    ("eligible.leader.replicas.version", 1): {METADATA_VERSION: METADATA_LEVELS["4.0-IV1"]},
}


def level_name(feature: str, level: int) -> str:
    """Return a level of a feature; that of `metadata.version` by its name."""
    if feature == METADATA_VERSION and 0 <= level - _FIRST_NAMED < len(_NAMES):
        return _NAMES[level - _FIRST_NAMED]
    return str(level)


def metadata_level(release: str) -> int:
    """Return the level of `metadata.version` of a release, such as 4.4 or 4.4-IV1.

    Raises KafkaToolError.
    """
    matching = [level for name, level in METADATA_LEVELS.items()
                if release in (name, name.partition("-")[0])]  # fmt: skip
    if not matching:
        raise KafkaToolError(
            f"Unknown metadata.version '{release}'. Supported metadata.version are: "
            f"{', '.join(_NAMES)}"
        )
    return max(matching)


def levels_of(release: str) -> dict[str, int]:
    """Return the level of each feature in new clusters of a release; raises KafkaToolError."""
    metadata = metadata_level(release)
    return {
        feature: max(
            (each.level for each in levels if METADATA_LEVELS[each.since] <= metadata), default=0
        )
        for feature, levels in _FEATURES.items()
    }


def write_version_mapping(release: str) -> None:
    """Print the levels of all features in a release; raises KafkaToolError."""
    metadata = metadata_level(release)
    write_line(f"{METADATA_VERSION}={metadata} ({level_name(METADATA_VERSION, metadata)})")
    for feature, level in levels_of(release).items():
        write_line(f"{feature}={level}")


def write_dependencies(texts: Sequence[str]) -> None:
    """Print which features the levels in texts such as `share.version=1` need."""
    for text in texts:
        feature, level = feature_and_level(text)
        if feature == METADATA_VERSION:
            name = level_name(feature, level)
            write_line(f"{feature}={level} ({name}) has no dependencies.")
            continue
        if feature not in _FEATURES:
            raise KafkaToolError(f"Unknown feature: {feature}")
        if level and level not in {each.level for each in _FEATURES[feature]}:
            raise KafkaToolError(f"Feature level {level} is not supported for feature {feature}")
        needed = _DEPENDENCIES.get((feature, level), {})
        if not needed:
            write_line(f"{feature}={level} has no dependencies.")
            continue
        write_line(f"{feature}={level} requires:")
        for name, least in needed.items():
            shown = f" ({level_name(name, least)})" if name == METADATA_VERSION else ""
            write_line(f"    {name}={least}{shown}")


def feature_and_level(text: str) -> tuple[str, int]:
    """Return a feature and its level, as in `share.version=1`; raises KafkaToolError."""
    feature, equals, level = text.partition("=")
    if not equals:
        raise KafkaToolError(f"Can't parse feature=level string {text}: equals sign not found.")
    if not level.strip().isdecimal():
        raise KafkaToolError(
            f"Can't parse feature=level string {text}: unable to parse {level} as a short."
        )
    return feature.strip(), int(level)
