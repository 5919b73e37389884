"""The APIs and versions of a release of Kafka: the table of APIs, limited to that release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.table import TABLE, find_api
from kafkalite.protocol.codec import API_VERSIONS_KEY
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.apis.table import Row
    from kafkalite.config.releases import Release
    from kafkalite.gateway.api import Api


def served_rows(release: Release, *, unstable: bool = False) -> Mapping[int, Row]:
    """Return the rows of the table of APIs that are served when this release is emulated.

    With `unstable`, versions that were under development in this release are included.
    """
    if release.apis is None and not unstable:
        return TABLE
    rows = {}
    for key, row in TABLE.items():
        oldest = row.lowest if release.apis is None or row.oldest is None else row.oldest
        implemented = Versions(oldest, row.highest)
        released = implemented if release.apis is None else release.apis.get(row.name)
        if unstable and row.name in release.unstable:
            latest = release.unstable[row.name]
            implemented = Versions(oldest, row.highest if row.unstable is None else row.unstable)
            released = Versions(latest if released is None else released.lowest, latest)
        versions = None if released is None else released.overlap(implemented)
        if versions is not None:
            rows[key] = row._replace(lowest=versions.lowest, highest=versions.highest)
    return rows


def api_finder(release: Release, *, unstable: bool = False) -> Callable[[int], Api | None]:
    """Return a function that finds an API of this release by its key."""
    if release.apis is None and not unstable:
        return find_api
    rows = served_rows(release, unstable=unstable)
    advertised = {key: row for key, row in rows.items() if row.name not in release.internal_apis}
    return finder_in(rows, advertised)


def finder_in(
    rows: Mapping[int, Row], advertised: Mapping[int, Row]
) -> Callable[[int], Api | None]:
    """Return a function that finds an API by its key, with the versions of its row.

    ApiVersions lists the `advertised` rows.
    """

    def find(key: int) -> Api | None:
        row = rows.get(key)
        if row is None:
            return None
        api = _new_api_versions_api(advertised) if key == API_VERSIONS_KEY else find_api(key)
        return api and api._replace(versions=Versions(row.lowest, row.highest))

    return find


def _new_api_versions_api(rows: Mapping[int, Row]) -> Api:
    from kafkalite.apis.api_versions import new_api_versions_api  # noqa: PLC0415 - imported on first use, as in the table

    return new_api_versions_api(rows)
