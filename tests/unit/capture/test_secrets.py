"""Secrets: overwritten wherever they can stand, in messages that stay what they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.capture.secrets import SENSITIVE_NAME, blank_request, blank_response
from kafkalite.config.keys import broker_keys
from kafkalite.protocol import codec
from kafkalite.protocol.messages.alter_configs import AlterConfigsRequest
from kafkalite.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from kafkalite.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from kafkalite.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkalite.protocol.messages.describe_configs import DescribeConfigsResponse
from kafkalite.protocol.messages.describe_delegation_token import DescribeDelegationTokenResponse
from kafkalite.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkalite.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkalite.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkalite.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tests.unit.frames import framed, request_frame, response_frame

if TYPE_CHECKING:
    from kafkalite.protocol.versions import Versions

SECRET = "hunter2-größer"  # noqa: S105 - that is what it is about
RAW = SECRET.encode()

ALTER = AlterConfigsRequest.AlterConfigsResource
INCREMENTAL = IncrementalAlterConfigsRequest.AlterConfigsResource
SCRAM = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
CREATED = CreateTopicsRequest.CreatableTopic
TOKEN = DescribeDelegationTokenResponse.DescribedDelegationToken
DESCRIBED = DescribeConfigsResponse.DescribeConfigsResult
SETTING = DescribeConfigsResponse.DescribeConfigsResourceResult

REQUESTS = [
    SaslAuthenticateRequest(auth_bytes=RAW),
    AlterUserScramCredentialsRequest(
        upsertions=[SCRAM(name="plain", salt=RAW, salted_password=RAW)]
    ),
    RenewDelegationTokenRequest(hmac=RAW),
    ExpireDelegationTokenRequest(hmac=RAW),
    AlterConfigsRequest(
        resources=[
            ALTER(
                resource_name="plain",
                configs=[
                    AlterConfigsRequest.AlterableConfig(name="ssl.key.password", value=SECRET),
                    AlterConfigsRequest.AlterableConfig(name="retention.ms", value="plain"),
                ],
            )
        ]
    ),
    IncrementalAlterConfigsRequest(
        resources=[
            INCREMENTAL(
                resource_name="plain",
                configs=[
                    IncrementalAlterConfigsRequest.AlterableConfig(
                        name="listener.name.inside.plain.sasl.jaas.config", value=SECRET
                    )
                ],
            )
        ]
    ),
    CreateTopicsRequest(
        topics=[
            CREATED(
                name="plain",
                configs=[CreateTopicsRequest.CreatableTopicConfig(name="my.api.key", value=SECRET)],
            )
        ]
    ),
]
RESPONSES = [
    SaslAuthenticateResponse(auth_bytes=RAW, error_message="plain"),
    CreateDelegationTokenResponse(hmac=RAW, token_id="plain"),  # noqa: S106
    DescribeDelegationTokenResponse(tokens=[TOKEN(token_id="plain", hmac=RAW)]),  # noqa: S106
    DescribeConfigsResponse(
        results=[
            DESCRIBED(
                resource_name="plain",
                configs=[
                    SETTING(
                        name="odd",
                        value=SECRET,
                        is_sensitive=True,
                        synonyms=[
                            DescribeConfigsResponse.DescribeConfigsSynonym(
                                name="odd.too", value=SECRET
                            )
                        ],
                    )
                ],
            )
        ]
    ),
    CreateTopicsResponse(
        topics=[
            CreateTopicsResponse.CreatableTopicResult(
                name="plain",
                configs=[
                    CreateTopicsResponse.CreatableTopicConfigs(
                        name="odd", value=SECRET, is_sensitive=True
                    )
                ],
            )
        ]
    ),
]


def known(message: Any) -> Versions:  # noqa: ANN401
    return codec.api_versions(message.API_KEY, unstable=True)


def versions(messages: list[Any]) -> list[Any]:
    return [
        pytest.param(message, version, id=f"{type(message).__name__}-{version}")
        for message in messages
        for version in range(known(message).lowest, known(message).highest + 1)
    ]


@pytest.mark.parametrize(("message", "version"), versions(REQUESTS))
def test_a_request_loses_its_secrets_and_nothing_else(message: Any, version: int) -> None:  # noqa: ANN401
    frame = request_frame(message, version, client_id=b"me")
    assert RAW in frame
    blanked, note = blank_request(frame)
    assert RAW not in blanked
    assert len(blanked) == len(frame)
    assert b"plain" in blanked or b"plain" not in frame
    assert note is not None
    assert note.blanked in {len(RAW), 2 * len(RAW)}
    start = blanked.index(b"me") + 2 + codec.is_flexible(message.API_KEY, version)
    _, end = codec.request_parser(message.API_KEY, version)(blanked, start, len(blanked))
    assert end == len(blanked)


@pytest.mark.parametrize(("message", "version"), versions(RESPONSES))
def test_a_response_loses_its_secrets_and_nothing_else(message: Any, version: int) -> None:  # noqa: ANN401
    frame = response_frame(message, version)
    blanked, _ = blank_response(message.API_KEY, version, frame)
    assert RAW not in blanked
    assert len(blanked) == len(frame)
    assert b"plain" in blanked or b"plain" not in frame
    start = 8 + codec.response_header_version(message.API_KEY, version)
    _, end = codec.response_parser(message.API_KEY, version)(blanked, start, len(blanked))
    assert end == len(blanked)


@pytest.mark.parametrize("cut", range(1, 40))
def test_what_cannot_be_taken_apart_is_overwritten_whole(cut: int) -> None:
    whole = request_frame(SaslAuthenticateRequest(auth_bytes=RAW), 2)
    for frame in (framed(whole[4:-cut]), framed(whole[4:] + RAW)):
        blanked, _ = blank_request(frame)
        assert len(blanked) == len(frame)
        assert RAW[:4] not in blanked
        assert blanked[:12] == frame[:12]


@pytest.mark.parametrize("cut", range(1, 20))
def test_so_is_a_response(cut: int) -> None:
    whole = response_frame(SaslAuthenticateResponse(auth_bytes=RAW), 2)
    for frame in (framed(whole[4:-cut]), framed(whole[4:] + RAW)):
        blanked, _ = blank_response(SaslAuthenticateResponse.API_KEY, 2, frame)
        assert len(blanked) == len(frame)
        assert RAW[:4] not in blanked
        assert blanked[:8] == frame[:8]


def test_fields_of_the_future_are_as_secret_as_those_known() -> None:
    frame = request_frame(SaslAuthenticateRequest(auth_bytes=b"x", unknown_tags={77: RAW}), 2)
    blanked, _ = blank_request(frame)
    assert RAW not in blanked
    assert len(blanked) == len(frame)


def test_every_password_that_kafka_has_is_known_by_its_name() -> None:
    passwords = [name for name, key in broker_keys().items() if key.is_sensitive]
    assert len(passwords) > 5
    assert [name for name in passwords if not SENSITIVE_NAME.search(name)] == []


def test_so_are_those_of_others() -> None:
    theirs = ("confluent.value.schema.registry.basic.auth.user.info", "s3.api.key", "my_password")
    assert [name for name in theirs if not SENSITIVE_NAME.search(name)] == []


def test_few_settings_are_taken_for_secrets_that_are_none() -> None:
    plain = ("retention.ms", "delegation.token.max.lifetime.ms", "sasl.login.class", "min.isr")
    assert [name for name in plain if SENSITIVE_NAME.search(name)] == []
