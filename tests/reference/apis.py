"""The page of APIs: versions that are served, by emulated release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.releases import served_rows
from kafkalite.apis.table import TABLE
from kafkalite.config.releases import Release, emulated_release, release_names
from kafkalite.metadata.features import supported_features
from kafkalite.protocol.spec import load_specs
from kafkalite.protocol.versions import Versions
from tests.reference.markdown import code, page, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.apis.table import Row

_INTRODUCTION = """\
ApiVersions returns these APIs and versions. By default a broker emulates Kafka 4.4, and also serves
older versions that Kafka 4 removed and clients still send. With `--as-version 3.9` it serves only
the APIs and versions of that release. [Speak as an older Kafka](../how-to/older-releases.md)
describes the option. Kafka's APIs that are not in the first table are not served."""

_UNSTABLE = """\
With `unstable.api.versions.enable=true`, a broker also serves versions that the emulated release
has under development. The last column is the latest of them."""


_UNSTABLE_FEATURES = """\
With `unstable.feature.versions.enable=true`, the emulated release also supports the levels of
features that it has under development. The last columns are the highest of them and the level of a
new cluster."""


def apis_page() -> str:
    """Return the page of APIs."""
    descriptions = {spec.key: spec.comment for spec in load_specs() if spec.kind == "request"}
    releases = [emulated_release(name) for name in release_names()]
    served_by_release = [served_rows(release) for release in releases]
    rows = sorted(TABLE.items())
    return page(
        "APIs and versions",
        _INTRODUCTION,
        "## Without an emulated release",
        table(
            ("Key", "API", "Versions", "Purpose"),
            [
                (
                    str(key),
                    row.name,
                    str(Versions(row.lowest, row.highest)),
                    descriptions[key].replace("\n", " "),
                )
                for key, row in rows
            ],
        ),
        "## By emulated release",
        "An empty cell means that a broker does not serve the API when it emulates the release.",
        table(
            ("API", *release_names()),
            [
                (row.name, *(_served(key, served) for served in served_by_release))
                for key, row in rows
            ],
        ),
        "## Unstable versions",
        _UNSTABLE,
        table(
            ("API", "Release", "Latest version"),
            [
                (api, release.name, str(version))
                for release in releases
                for api, version in release.unstable.items()
                if any(row.name == api for row in TABLE.values())
            ],
        ),
        "## Features",
        "A cell has the supported levels of a feature, and in brackets the level of a new cluster.",
        table(
            ("Feature", *release_names()),
            [
                (code(feature), *(_levels(feature, release) for release in releases))
                for feature in sorted({name for release in releases for name in release.features})
            ],
        ),
        "## Unstable feature levels",
        _UNSTABLE_FEATURES,
        table(
            ("Feature", "Release", "Highest level", "Level of a new cluster"),
            [
                (code(name), release.name, str(feature.unstable), str(unstable[name].formatted))
                for release in releases
                for unstable in (release.with_unstable_features().features,)
                for name, feature in sorted(release.features.items())
                if unstable[name] != feature
            ],
        ),
    )


def _served(key: int, rows: Mapping[int, Row]) -> str:
    row = rows.get(key)
    return "" if row is None else str(Versions(row.lowest, row.highest))


def _levels(feature: str, release: Release) -> str:
    levels = supported_features(release).get(feature)
    return "" if levels is None else f"{levels.lowest}-{levels.highest} ({levels.formatted})"
