"""The dispatch table as a release of Kafka has it: nothing is served that its brokers lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis.table import TABLE, find_api
from kafkalite.protocol.versions import Versions
from kafkalite.wire.headers import API_VERSIONS_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.apis.contract import Api
    from kafkalite.apis.table import Row
    from kafkalite.config.releases import Release


def rows_in(release: Release) -> Mapping[int, Row]:
    """Return what is served of a release: the table, cut to what it speaks."""
    if release.apis is None:
        return TABLE
    rows = {}
    for key, row in TABLE.items():
        then = release.apis.get(row.name)
        both = None if then is None else then.overlap(Versions(row.lowest, row.highest))
        if both is not None:
            rows[key] = row._replace(lowest=both.lowest, highest=both.highest)
    return rows


def find_in(release: Release) -> Callable[[int], Api | None]:
    """Return what finds how an API of this release is served, by its key."""
    if release.apis is None:
        return find_api
    rows = rows_in(release)

    def find(key: int) -> Api | None:
        row = rows.get(key)
        if row is None:
            return None
        found = _api_versions(rows) if key == API_VERSIONS_KEY else find_api(key)
        return found and found._replace(versions=Versions(row.lowest, row.highest))

    return find


def _api_versions(rows: Mapping[int, Row]) -> Api:
    from kafkalite.apis.versions_api import api_versions  # noqa: PLC0415 - as the table imports it

    return api_versions(rows)
