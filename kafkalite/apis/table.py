"""The dispatch table: every API that is served, gathered from the modules that serve them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.apis import (
    alter_configs,
    classic_groups,
    cluster,
    configs,
    consumer_groups,
    delete_records,
    discovery,
    fetch,
    find_coordinator,
    group_admin,
    list_offsets,
    log_dirs,
    offset_fetch,
    offsets,
    produce,
    producer_ids,
    topic_partitions,
    topics,
)
from kafkalite.apis.versions_api import with_api_versions

if TYPE_CHECKING:
    from kafkalite.apis.contract import Api

_FAMILIES = (
    alter_configs,
    classic_groups,
    cluster,
    configs,
    consumer_groups,
    delete_records,
    discovery,
    fetch,
    find_coordinator,
    group_admin,
    list_offsets,
    log_dirs,
    offset_fetch,
    offsets,
    produce,
    producer_ids,
    topic_partitions,
    topics,
)


def served_apis() -> tuple[Api, ...]:
    """Return a row for each API; ApiVersions tells of these and of nothing else."""
    return with_api_versions([api for family in _FAMILIES for api in family.APIS])
