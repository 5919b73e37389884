"""Fixtures of the tests of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.client import connection
from kafkalite.client.exchanges import supported_versions
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSIONS_OF_2_0 = {
    ApiKey.PRODUCE: 6,
    ApiKey.FETCH: 8,
    ApiKey.LIST_OFFSETS: 3,
    ApiKey.METADATA: 6,
    ApiKey.OFFSET_COMMIT: 4,
    ApiKey.OFFSET_FETCH: 4,
    ApiKey.FIND_COORDINATOR: 2,
    ApiKey.JOIN_GROUP: 3,
    ApiKey.HEARTBEAT: 2,
    ApiKey.LEAVE_GROUP: 2,
    ApiKey.SYNC_GROUP: 2,
    ApiKey.API_VERSIONS: 2,
    ApiKey.INIT_PRODUCER_ID: 1,
    ApiKey.ADD_PARTITIONS_TO_TXN: 1,
    ApiKey.END_TXN: 1,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 1,
    ApiKey.DESCRIBE_GROUPS: 2,
    ApiKey.LIST_GROUPS: 2,
    ApiKey.DELETE_GROUPS: 1,
    ApiKey.CREATE_TOPICS: 3,
    ApiKey.DELETE_TOPICS: 3,
    ApiKey.CREATE_PARTITIONS: 1,
    ApiKey.DESCRIBE_CONFIGS: 2,
}
"""The highest versions of Kafka 2.0."""


@pytest.fixture
def old_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients use only requests that Kafka 2.0 has."""

    def supported_by_2_0(response: object) -> Mapping[int, Versions]:
        offered = supported_versions(response)
        return {
            key: versions
            for key, highest in VERSIONS_OF_2_0.items()
            if (versions := offered[key].overlap(Versions(0, highest))) is not None
        }

    monkeypatch.setattr(connection, "supported_versions", supported_by_2_0)
