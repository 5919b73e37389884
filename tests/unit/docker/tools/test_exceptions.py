"""Names of Java's exceptions."""

from __future__ import annotations

import pytest

from kafkalite.docker.tools.exceptions import exception_name
from kafkalite.protocol.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "UnknownTopicOrPartitionException"),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "InvalidTopicException"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "TopicAuthorizationException"),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, "SaslAuthenticationException"),
        (ErrorCode.NON_EMPTY_GROUP, "GroupNotEmptyException"),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "FetchSessionTopicIdException"),
    ],
)
def test_exceptions_have_the_names_of_java(code: ErrorCode, name: str) -> None:
    assert exception_name(code) == f"org.apache.kafka.common.errors.{name}"
