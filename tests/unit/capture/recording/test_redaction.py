"""Unit tests of redaction: secrets are overwritten, messages stay valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.capture.recording.redaction import SENSITIVE_NAME, redact_request, redact_response
from kafkalite.config.keys import broker_keys
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.alter_configs import AlterConfigsRequest
from kafkalite.protocol._generated.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.create_delegation_token import (
    CreateDelegationTokenResponse,
)
from kafkalite.protocol._generated.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsResponse
from kafkalite.protocol._generated.messages.describe_delegation_token import (
    DescribeDelegationTokenResponse,
)
from kafkalite.protocol._generated.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tests.unit.frames import framed, request_frame, response_frame

if TYPE_CHECKING:
    from kafkalite.protocol.versions import Versions

SECRET = "hunter2-größer"  # noqa: S105 - test data
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
def test_only_secrets_of_a_request_are_overwritten(message: Any, version: int) -> None:  # noqa: ANN401
    frame = request_frame(message, version, client_id=b"me")
    assert RAW in frame
    blanked, note = redact_request(frame)
    assert RAW not in blanked
    assert len(blanked) == len(frame)
    assert b"plain" in blanked or b"plain" not in frame
    assert note is not None
    assert note.blanked in {len(RAW), 2 * len(RAW)}
    start = blanked.index(b"me") + 2 + codec.is_flexible(message.API_KEY, version)
    _, end = codec.request_parser(message.API_KEY, version)(blanked, start, len(blanked))
    assert end == len(blanked)


@pytest.mark.parametrize(("message", "version"), versions(RESPONSES))
def test_only_secrets_of_a_response_are_overwritten(message: Any, version: int) -> None:  # noqa: ANN401
    frame = response_frame(message, version)
    blanked, _ = redact_response(message.API_KEY, version, frame)
    assert RAW not in blanked
    assert len(blanked) == len(frame)
    assert b"plain" in blanked or b"plain" not in frame
    start = 8 + codec.response_header_version(message.API_KEY, version)
    _, end = codec.response_parser(message.API_KEY, version)(blanked, start, len(blanked))
    assert end == len(blanked)


@pytest.mark.parametrize("cut", range(1, 40))
def test_malformed_request_is_overwritten_after_its_header(cut: int) -> None:
    whole = request_frame(SaslAuthenticateRequest(auth_bytes=RAW), 2)
    for frame in (framed(whole[4:-cut]), framed(whole[4:] + RAW)):
        blanked, _ = redact_request(frame)
        assert len(blanked) == len(frame)
        assert RAW[:4] not in blanked
        assert blanked[:12] == frame[:12]


@pytest.mark.parametrize("cut", range(1, 20))
def test_malformed_response_is_overwritten_after_its_header(cut: int) -> None:
    whole = response_frame(SaslAuthenticateResponse(auth_bytes=RAW), 2)
    for frame in (framed(whole[4:-cut]), framed(whole[4:] + RAW)):
        blanked, _ = redact_response(SaslAuthenticateResponse.API_KEY, 2, frame)
        assert len(blanked) == len(frame)
        assert RAW[:4] not in blanked
        assert blanked[:8] == frame[:8]


def test_unknown_tagged_fields_are_overwritten() -> None:
    frame = request_frame(SaslAuthenticateRequest(auth_bytes=b"x", unknown_tags={77: RAW}), 2)
    blanked, _ = redact_request(frame)
    assert RAW not in blanked
    assert len(blanked) == len(frame)


def test_all_sensitive_broker_settings_are_recognised_by_name() -> None:
    passwords = [name for name, key in broker_keys().items() if key.is_sensitive]
    assert len(passwords) > 5
    assert [name for name in passwords if not SENSITIVE_NAME.search(name)] == []


def test_sensitive_settings_of_other_systems_are_recognised() -> None:
    names = ("confluent.value.schema.registry.basic.auth.user.info", "s3.api.key", "my_password")
    assert [name for name in names if not SENSITIVE_NAME.search(name)] == []


def test_other_settings_are_not_recognised_as_secrets() -> None:
    plain = ("retention.ms", "delegation.token.max.lifetime.ms", "sasl.login.class", "min.isr")
    assert [name for name in plain if SENSITIVE_NAME.search(name)] == []
