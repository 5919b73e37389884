"""The rows of profiles: each has a source, and names that the broker knows."""

from __future__ import annotations

import pytest

from kafkalite.apis.table import TABLE
from kafkalite.config import profiles
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError
from kafkalite.config.profiles import PROFILES, Kind, Profile, Row
from kafkalite.config.releases import emulated_release, release_names
from kafkalite.protocol.acl_operations import Operation, Resource
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import row as catalogue_row
from kafkalite.protocol.codec import api_name
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

ROWS = [(profile, row) for profile in PROFILES.values() for row in profile.rows]
IDS = [f"{profile.name}: {row}" for profile, row in ROWS]
API_NAMES = {api_name(key) for key in TABLE}
LIMITS = {
    profiles.PARTITIONS_PER_TOPIC, profiles.PARTITIONS, profiles.TOPICS, profiles.GROUPS,
    profiles.GROUP_ID_CHARACTERS, profiles.REPLICATION_FACTOR, profiles.PRODUCED_BYTES,
    profiles.COMPRESSION_TYPES,
}  # fmt: skip


def test_the_profiles_are_those_of_four_services() -> None:
    assert list(PROFILES) == ["msk-serverless", "eventhubs", "confluent-cloud", "redpanda"]
    assert all(name == profile.name for name, profile in PROFILES.items())
    assert {profile.base for profile in PROFILES.values()} <= set(release_names())


@pytest.mark.parametrize(("profile", "row"), ROWS, ids=IDS)
def test_a_row_has_a_source_and_known_names(profile: Profile, row: Row) -> None:
    assert row.source.title
    assert row.source.url.startswith("https://")
    assert " " not in row.source.url
    assert not row.error or row.error in ErrorCode.__members__
    match row.kind:
        case Kind.API:
            assert row.subject == profiles.OTHERS or row.subject in API_NAMES
            assert row.value == profiles.NOT_SERVED or Versions.parse(row.value)
        case Kind.DEFAULT:
            BrokerConfig.from_text({row.subject: row.value}, as_version=profile.base)
        case Kind.LIMIT:
            assert row.subject in LIMITS
            assert row.error or row.subject == profiles.PRODUCED_BYTES
        case Kind.REFUSED:
            api, _, resource = row.subject.partition(" ")
            assert api in API_NAMES
            assert resource in {"", "BROKER"}
            assert row.error
        case Kind.SETTING:
            assert bool(row.error) is (row.value not in {profiles.EDITABLE, profiles.IGNORED})


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_a_fact_has_one_row(profile: Profile) -> None:
    facts = [
        (row.kind, row.subject, row.value.startswith((profiles.MAXIMUM, profiles.MINIMUM)))
        for row in profile.rows
    ]
    assert len(facts) == len(set(facts))


def test_an_unknown_service_is_rejected_with_the_known_names() -> None:
    with pytest.raises(ConfigError, match=r"'4\.0'.*'msk-serverless', 'eventhubs'"):
        emulated_release("kinesis")


def test_a_service_has_the_apis_of_its_release_and_its_rows() -> None:
    release = emulated_release("eventhubs")
    base = emulated_release("3.3")
    assert release.name == "3.3"
    assert release.profile is PROFILES["eventhubs"]
    assert release.apis is not None
    assert base.apis is not None
    assert release.apis["Fetch"] == Versions(4, 6)
    assert release.apis["ListGroups"] == base.apis["ListGroups"]
    assert "EndTxn" not in release.apis
    assert release.internal_apis == {"WriteTxnMarkers"}


def test_only_listed_apis_are_served_if_a_row_excludes_all_others() -> None:
    release = emulated_release("redpanda")
    listed = {row.subject for row in PROFILES["redpanda"].of_kind(Kind.API)} - {profiles.OTHERS}
    assert len(listed) == 42
    assert set(release.apis or {}) == listed | release.internal_apis


def test_the_default_replication_factor_is_limited_to_the_nodes() -> None:
    key = "default.replication.factor"
    for node_count in (1, 2, 3, 5):
        config = BrokerConfig.from_text(as_version="confluent-cloud", node_count=node_count)
        assert config.int(key) == min(3, node_count)
    assert BrokerConfig.from_text({key: "2"}, as_version="confluent-cloud").int(key) == 2


def test_calls_without_permission_need_an_operation_on_the_cluster_that_no_client_has() -> None:
    """AWS: these actions do not apply to serverless clusters."""
    missing = {Operation.ALTER, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS}
    keys = {api_name(key): ApiKey(key) for key in TABLE}
    for row in PROFILES["msk-serverless"].of_kind(Kind.REFUSED):
        needed = {
            permission.operation
            for alternatives in catalogue_row(keys[row.subject.partition(" ")[0]]).access
            for permission in alternatives
            if permission.resource is Resource.CLUSTER
        }
        assert needed & missing, row
