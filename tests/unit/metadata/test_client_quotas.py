"""Client quotas of the controller: validation, records, images."""

from __future__ import annotations

from math import inf, nan

import pytest

from kafkalite.metadata.client_quotas import MAX_RECORDS_PER_REQUEST, QuotaAlteration
from kafkalite.protocol._generated.records.client_quota import ClientQuotaRecord
from kafkalite.protocol.codec import decode_metadata_record
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.cluster.metadata import MetadataCluster

ALICE = (("user", "alice"),)
DEFAULT_CLIENT = (("client-id", None),)


def alter(
    cluster: MetadataCluster,
    entity: tuple[tuple[str, str | None], ...] = ALICE,
    *values: tuple[str, float | None],
) -> str | None:
    """Alter one entity; return its error message, None if there is none."""
    outcome = cluster.controller.alter_client_quotas([QuotaAlteration(entity, values)])
    (error,) = outcome.values()
    if error is None:
        return None
    assert error.code == ErrorCode.INVALID_REQUEST
    return error.message


def quota_records(cluster: MetadataCluster) -> list[ClientQuotaRecord]:
    values = [value for _, value in cluster.log.read_all() if value is not None]
    records = [decode_metadata_record(value) for value in values]
    return [record for record in records if isinstance(record, ClientQuotaRecord)]


def test_a_quota_is_a_record_and_in_the_image() -> None:
    cluster = MetadataCluster()
    assert alter(cluster, ALICE, ("producer_byte_rate", 1024.0)) is None
    assert dict(cluster.image.client_quotas) == {frozenset(ALICE): {"producer_byte_rate": 1024.0}}
    assert quota_records(cluster) == [
        ClientQuotaRecord(
            entity=[ClientQuotaRecord.EntityData(entity_type="user", entity_name="alice")],
            key="producer_byte_rate",
            value=1024.0,
        )
    ]
    assert cluster.restart(1).image.client_quotas == cluster.image.client_quotas


def test_only_changes_are_written() -> None:
    cluster = MetadataCluster()
    alter(cluster, DEFAULT_CLIENT, ("request_percentage", 50.0))
    alter(cluster, DEFAULT_CLIENT, ("request_percentage", 50.0), ("consumer_byte_rate", None))
    assert len(quota_records(cluster)) == 1
    alter(cluster, DEFAULT_CLIENT, ("request_percentage", None))
    assert quota_records(cluster)[1].remove
    assert not cluster.image.client_quotas
    assert not cluster.restart(1).image.client_quotas


def test_images_share_the_quotas_until_one_changes() -> None:
    cluster = MetadataCluster()
    alter(cluster, ALICE, ("producer_byte_rate", 1.0))
    before = cluster.image.client_quotas
    cluster.controller.allocate_producer_ids(1)
    assert cluster.image.client_quotas is before
    alter(cluster, ALICE, ("producer_byte_rate", 2.0))
    assert before == {frozenset(ALICE): {"producer_byte_rate": 1.0}}


@pytest.mark.parametrize(
    ("entity", "key", "value", "message"),
    [
        ((), "producer_byte_rate", 1, "Invalid empty client quota entity"),
        ((("team", "a"),), "producer_byte_rate", 1, "Unhandled client quota entity type: team"),
        ((("user", ""),), "producer_byte_rate", 1, "Empty user not supported"),
        (
            (("ip", "::1"), ("user", "a")), "connection_creation_rate", 1,
            ("Invalid quota entity combination, IP entity shouldnot be combined with User or "
             "ClientId"),
        ),
        (
            (("ip", "no address"),), "connection_creation_rate", 1,
            "no address is not a valid IP or resolvable host.",
        ),
        ((("ip", "::1"),), "producer_byte_rate", 1,
         "Invalid configuration key producer_byte_rate"),
        (ALICE, "connection_creation_rate", 1,
         "Invalid configuration key connection_creation_rate"),
        (ALICE, "producer_byte_rate", 0, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, "request_percentage", nan, "Quota request_percentage must be a finite number"),
        (ALICE, "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        (ALICE, "producer_byte_rate", 1e20,
         "Proposed value for producer_byte_rate is too large for a LONG."),
        ((("ip", "1.2.3.4"),), "connection_creation_rate", 1e10,
         "Proposed value for connection_creation_rate is too large for an INT."),
    ],
)  # fmt: skip
def test_invalid_quotas_are_refused(
    entity: tuple[tuple[str, str | None], ...], key: str, value: float, message: str
) -> None:
    cluster = MetadataCluster()
    assert alter(cluster, entity, (key, value)) == message
    assert not quota_records(cluster)


@pytest.mark.parametrize("address", ["10.0.0.1", "::1", "localhost", None])
def test_addresses_have_a_connection_rate(address: str | None) -> None:
    cluster = MetadataCluster()
    assert alter(cluster, (("ip", address),), ("connection_creation_rate", 10.0)) is None


def test_fractional_percentages_are_valid() -> None:
    cluster = MetadataCluster()
    assert alter(cluster, ALICE, ("request_percentage", 0.5)) is None
    assert alter(cluster, ALICE, ("controller_mutation_rate", 0.5)) is None


def test_an_entity_or_a_key_that_is_given_twice_is_refused() -> None:
    cluster = MetadataCluster()
    message = alter(cluster, ALICE, ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0))
    assert message == "Duplicate quota key producer_byte_rate not updating quota"
    twice = [
        QuotaAlteration(ALICE, (("producer_byte_rate", 1.0),)),
        QuotaAlteration(ALICE, (("producer_byte_rate", 2.0),)),
    ]
    (error,) = cluster.controller.alter_client_quotas(twice).values()
    assert error is not None
    assert error.code == ErrorCode.INVALID_REQUEST
    assert cluster.image.client_quotas[frozenset(ALICE)] == {"producer_byte_rate": 1.0}


def test_validation_alone_writes_nothing() -> None:
    cluster = MetadataCluster()
    alteration = QuotaAlteration(ALICE, (("producer_byte_rate", 1.0),))
    outcome = cluster.controller.alter_client_quotas([alteration], validate_only=True)
    assert list(outcome.values()) == [None]
    assert not quota_records(cluster)


def test_too_many_quotas_in_one_request_are_refused() -> None:
    cluster = MetadataCluster()
    alterations = [
        QuotaAlteration((("client-id", str(number)),), (("request_percentage", 1.0),))
        for number in range(MAX_RECORDS_PER_REQUEST + 1)
    ]
    with pytest.raises(KafkaError) as refusal:
        cluster.controller.alter_client_quotas(alterations)
    assert refusal.value.code == ErrorCode.POLICY_VIOLATION
    assert not quota_records(cluster)


def test_a_quota_must_be_finite() -> None:
    alteration = QuotaAlteration(ALICE, (("request_percentage", inf),))
    outcome = MetadataCluster(as_version="4.4").controller.alter_client_quotas([alteration])
    (error,) = outcome.values()
    assert error is not None
    assert error.code is ErrorCode.INVALID_REQUEST
    older = MetadataCluster(as_version="4.3").controller.alter_client_quotas([alteration])
    assert list(older.values()) == [None]
