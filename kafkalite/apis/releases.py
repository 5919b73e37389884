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


def rows_in(release: Release, *, unstable: bool = False) -> Mapping[int, Row]:
    """Return the rows that are served for a release.

    With `unstable`, versions that were under development in this release are included.
    """
    if release.apis is None and not unstable:
        return TABLE
    rows = {}
    for key, row in TABLE.items():
        served = Versions(row.lowest, row.highest)
        supported = served if release.apis is None else release.apis.get(row.name)
        if unstable and row.name in release.unstable:
            latest = release.unstable[row.name]
            served = Versions(row.lowest, row.highest if row.unstable is None else row.unstable)
            supported = Versions(latest if supported is None else supported.lowest, latest)
        both = None if supported is None else supported.overlap(served)
        if both is not None:
            rows[key] = row._replace(lowest=both.lowest, highest=both.highest)
    return rows


def find_in(release: Release, *, unstable: bool = False) -> Callable[[int], Api | None]:
    """Return a function that finds an API of this release by its key."""
    if release.apis is None and not unstable:
        return find_api
    rows = rows_in(release, unstable=unstable)

    def find(key: int) -> Api | None:
        row = rows.get(key)
        if row is None:
            return None
        api = _api_versions(rows) if key == API_VERSIONS_KEY else find_api(key)
        return api and api._replace(versions=Versions(row.lowest, row.highest))

    return find


def _api_versions(rows: Mapping[int, Row]) -> Api:
    from kafkalite.apis.versions_api import api_versions  # noqa: PLC0415 - imported on first use, as in the table

    return api_versions(rows)
