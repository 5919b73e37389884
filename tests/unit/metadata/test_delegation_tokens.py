"""Delegation tokens in the metadata log: rules, records, limits and restarts."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.metadata.delegation_tokens import (
    MAX_RECORD_BYTES,
    MAX_RENEWERS,
    MAX_TIME_MS,
    TokenRequest,
)
from kafkalite.protocol._generated.records.remove_delegation_token import (
    RemoveDelegationTokenRecord,
)
from kafkalite.protocol.codec import decode_metadata_record, encode_metadata_record
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.security.delegation_tokens import DelegationToken, token_hmac
from tests.cluster.metadata import MetadataCluster

KEY = "the secret key"
DAY_MS = 86_400_000
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"


def cluster_with(max_lifetime_ms: int = 7 * DAY_MS, expiry_ms: int = DAY_MS) -> MetadataCluster:
    return MetadataCluster(
        delegation_token_secret_key=KEY,
        delegation_token_max_lifetime_ms=str(max_lifetime_ms),
        delegation_token_expiry_time_ms=str(expiry_ms),
    )


def restarted(cluster: MetadataCluster, key: str = KEY) -> MetadataCluster:
    return MetadataCluster(log=cluster.log, seed=1, delegation_token_secret_key=key)


def create(
    cluster: MetadataCluster,
    owner: str = ALICE,
    requester: str = ALICE,
    renewers: tuple[str, ...] = (BOB,),
    max_lifetime_ms: int = -1,
) -> DelegationToken:
    request = TokenRequest(owner, requester, renewers, max_lifetime_ms)
    return cluster.controller.create_delegation_token(request)


def hmac_of(token: DelegationToken) -> bytes:
    return token_hmac(KEY, token.token_id)


def refused(call: Any, *arguments: object) -> ErrorCode:  # noqa: ANN401 - any method
    with pytest.raises(KafkaError) as error:
        call(*arguments)
    return error.value.code


def records_of(cluster: MetadataCluster) -> list[object]:
    return [decode_metadata_record(value or b"") for _, value in cluster.log.entries]


def test_a_token_has_the_default_lifetimes_of_kafka() -> None:
    cluster = MetadataCluster(delegation_token_secret_key=KEY)
    now_ms = cluster.clock.now_ms()
    token = create(cluster, requester=CAROL)
    assert token == DelegationToken(
        token.token_id, ALICE, CAROL, (BOB,), now_ms, now_ms + 7 * DAY_MS, now_ms + DAY_MS,
    )  # fmt: skip
    assert len(token.token_id) == 22
    assert cluster.image.delegation_tokens == {token.token_id: token}
    record: Any = records_of(cluster)[-1]
    assert (record.owner, record.requester, record.renewers) == (ALICE, CAROL, [BOB])
    assert (record.issue_timestamp, record.max_timestamp, record.expiration_timestamp) == token[4:]
    assert record.token_id == token.token_id


def test_the_log_has_neither_the_key_nor_an_hmac() -> None:
    cluster = cluster_with()
    hmac = hmac_of(create(cluster))
    log = b"".join(value or b"" for _, value in cluster.log.entries)
    assert KEY.encode() not in log
    assert hmac not in log


@pytest.mark.parametrize(
    ("requested_ms", "max_ms", "expiry_ms"),
    [
        (-1, 10_000, 2_000),
        (0, 10_000, 2_000),
        (-(1 << 63), 10_000, 2_000),
        (1, 1, 1),
        (5_000, 5_000, 2_000),
        (10_001, 10_000, 2_000),
        (MAX_TIME_MS, 10_000, 2_000),
    ],
)
def test_a_requested_lifetime_only_shortens_that_of_the_settings(
    requested_ms: int, max_ms: int, expiry_ms: int
) -> None:
    cluster = cluster_with(max_lifetime_ms=10_000, expiry_ms=2_000)
    token = create(cluster, max_lifetime_ms=requested_ms)
    assert (
        token.max_timestamp_ms - token.issued_at_ms, token.expires_at_ms - token.issued_at_ms
    ) == (max_ms, expiry_ms)  # fmt: skip


def test_times_do_not_exceed_64_bits() -> None:
    cluster = cluster_with(MAX_TIME_MS, MAX_TIME_MS)
    token = create(cluster)
    assert token.max_timestamp_ms == token.expires_at_ms == MAX_TIME_MS
    controller, hmac = cluster.controller, hmac_of(token)
    for period_ms in (-(1 << 63), 0, MAX_TIME_MS):
        assert controller.renew_delegation_token(hmac, ALICE, period_ms) == MAX_TIME_MS
    assert controller.expire_delegation_token(hmac, ALICE, MAX_TIME_MS) == MAX_TIME_MS
    assert restarted(cluster).image.delegation_tokens == cluster.image.delegation_tokens


@pytest.mark.parametrize("key", [None, ""])
def test_without_a_secret_key_tokens_are_disabled(key: str | None) -> None:
    cluster = MetadataCluster() if key is None else MetadataCluster(delegation_token_secret_key=key)
    controller = cluster.controller
    assert refused(create, cluster) is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    for call in (controller.renew_delegation_token, controller.expire_delegation_token):
        assert refused(call, b"", ALICE, 1) is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert cluster.image.delegation_tokens == {}


def test_the_owner_and_renewers_renew_a_token() -> None:
    cluster = cluster_with()
    token = create(cluster, requester=CAROL)
    renew = cluster.controller.renew_delegation_token
    for principal in (ALICE, BOB):
        cluster.clock.advance(1_000)
        now_ms = cluster.clock.now_ms()
        assert renew(hmac_of(token), principal, -1) == now_ms + DAY_MS
        assert renew(hmac_of(token), principal, 5_000) == now_ms + 5_000
        assert renew(hmac_of(token), principal, MAX_TIME_MS) == now_ms + DAY_MS
    assert refused(renew, hmac_of(token), CAROL, -1) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert cluster.image.delegation_tokens[token.token_id] == token._replace(
        expires_at_ms=cluster.clock.now_ms() + DAY_MS
    )


def test_a_token_is_not_renewed_beyond_its_maximum_lifetime() -> None:
    cluster = cluster_with(expiry_ms=6_000)
    token = create(cluster, max_lifetime_ms=10_000)
    cluster.clock.advance(6_000)
    renew = cluster.controller.renew_delegation_token
    assert renew(hmac_of(token), ALICE, -1) == token.max_timestamp_ms
    cluster.clock.advance(4_000)
    assert renew(hmac_of(token), ALICE, -1) == token.max_timestamp_ms
    cluster.clock.advance(1)
    assert refused(renew, hmac_of(token), ALICE, -1) is ErrorCode.DELEGATION_TOKEN_EXPIRED


@pytest.mark.parametrize("hmac", [b"", b"x", b"x" * 63, b"x" * 64, b"x" * 65, b"x" * 1_000_000])
def test_an_unknown_hmac_is_not_found(hmac: bytes) -> None:
    cluster = cluster_with()
    create(cluster)
    controller = cluster.controller
    for call in (controller.renew_delegation_token, controller.expire_delegation_token):
        assert refused(call, hmac, ALICE, 1) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_an_expired_token_is_refused_before_its_principal_is_checked() -> None:
    cluster = cluster_with(expiry_ms=1_000)
    token = create(cluster)
    cluster.clock.advance(1_001)
    renew, expire = (
        cluster.controller.renew_delegation_token,
        cluster.controller.expire_delegation_token,
    )
    assert refused(renew, hmac_of(token), CAROL, -1) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert refused(expire, hmac_of(token), CAROL, 1) is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert refused(expire, hmac_of(token), ALICE, 1) is ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert expire(hmac_of(token), ALICE, -1) == cluster.clock.now_ms()
    assert cluster.image.delegation_tokens == {}


@pytest.mark.parametrize("period_ms", [-1, -(1 << 63)])
def test_a_negative_period_removes_a_token(period_ms: int) -> None:
    cluster = cluster_with()
    token, other = create(cluster), create(cluster)
    expire = cluster.controller.expire_delegation_token
    assert expire(hmac_of(token), BOB, period_ms) == cluster.clock.now_ms()
    assert cluster.image.delegation_tokens == {other.token_id: other}
    assert refused(expire, hmac_of(token), BOB, -1) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert restarted(cluster).image.delegation_tokens == {other.token_id: other}


def test_a_period_of_zero_lets_a_token_expire_now() -> None:
    cluster = cluster_with()
    token = create(cluster)
    expire = cluster.controller.expire_delegation_token
    assert expire(hmac_of(token), ALICE, 0) == cluster.clock.now_ms()
    assert not cluster.image.delegation_tokens[token.token_id].has_expired(cluster.clock.now_ms())
    cluster.clock.advance(1)
    assert refused(expire, hmac_of(token), ALICE, 0) is ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_a_token_expires_at_the_end_of_its_maximum_lifetime_at_the_latest() -> None:
    cluster = cluster_with()
    token = create(cluster)
    expire = cluster.controller.expire_delegation_token
    assert expire(hmac_of(token), ALICE, MAX_TIME_MS) == token.max_timestamp_ms


def test_expired_tokens_are_removed_in_portions() -> None:
    cluster = cluster_with(expiry_ms=1_000)
    for _ in range(3):
        create(cluster)
    cluster.clock.advance(1_000)
    remove = cluster.controller.remove_expired_delegation_tokens
    young = create(cluster)
    assert remove(2) is False
    assert len(cluster.image.delegation_tokens) == 4
    cluster.clock.advance(1)
    assert [remove(2), remove(2)] == [True, False]
    assert cluster.image.delegation_tokens == {young.token_id: young}


def test_tokens_are_usable_after_a_restart_with_the_same_key() -> None:
    cluster = cluster_with()
    token = create(cluster)
    again = restarted(cluster)
    assert again.image.delegation_tokens == cluster.image.delegation_tokens
    assert again.controller.renew_delegation_token(hmac_of(token), ALICE, 7) > 0
    other = restarted(cluster, key="another key")
    renew = other.controller.renew_delegation_token
    assert refused(renew, hmac_of(token), ALICE, 7) is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    disabled = restarted(cluster, key="")
    assert disabled.image.delegation_tokens.keys() == {token.token_id}


def test_a_token_that_the_log_removes_twice_is_removed_once() -> None:
    cluster = cluster_with()
    token = create(cluster)
    cluster.controller.expire_delegation_token(hmac_of(token), ALICE, -1)
    record = RemoveDelegationTokenRecord(token_id=token.token_id)
    cluster.log.append([(None, encode_metadata_record(record, 0))], 0)
    assert restarted(cluster).image.delegation_tokens == {}


def test_a_token_with_too_many_renewers_is_refused() -> None:
    cluster = cluster_with()
    entries = len(cluster.log.entries)
    renewers = ("User:" + "r" * 1_000,)
    count = MAX_RECORD_BYTES // 1_007
    assert len(create(cluster, renewers=renewers * count).renewers) == count
    for too_many in (renewers * (count + 1), (BOB,) * (MAX_RENEWERS + 1)):
        code = refused(create, cluster, ALICE, ALICE, too_many)
        assert code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(cluster.log.entries) == entries + 1
    assert len(create(cluster, renewers=(BOB,) * MAX_RENEWERS).renewers) == MAX_RENEWERS


def test_other_changes_keep_the_same_mapping_of_tokens() -> None:
    cluster = cluster_with()
    create(cluster)
    before = cluster.image.delegation_tokens
    cluster.controller.allocate_producer_ids(1)
    assert cluster.image.delegation_tokens is before
