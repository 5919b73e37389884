"""Errors of brokers as Kafka's tools print them: with the names of Java's exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.docker.tools.arguments import KafkaToolError
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGE: Final = "org.apache.kafka.common.errors."
_EXECUTION: Final = "java.util.concurrent.ExecutionException: "
_OTHER_NAMES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.STALE_CONTROLLER_EPOCH: "ControllerMovedException",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "OffsetMetadataTooLarge",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequenceException",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "DuplicateSequenceException",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "InvalidPidMappingException",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "InvalidTxnTimeoutException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "DelegationTokenDisabledException",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "UnsupportedByAuthenticationException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "PrincipalDeserializationException",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "InvalidRegularExpression",
}
"""Errors whose exception has another name than the code."""


_MESSAGES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: (
        "The requested offset is not within the range of offsets maintained by the server."
    ),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed "
        "to it."
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "Delegation Token is not found on server.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on "
        "delegation token authenticated channels."
    ),
}
"""Messages that Kafka's clients have for codes, if those of this project have other words."""


def exception_name(code: int) -> str:
    """Return the name of the exception of an error code, with its package."""
    error = ErrorCode(code)
    name = _OTHER_NAMES.get(error)
    if name is None:
        words = error.name.removesuffix("_EXCEPTION").removesuffix("_ERROR").split("_")
        name = "".join(map(str.capitalize, words)).replace("AuthorizationFailed", "Authorization")
        name = f"{name.replace('AuthenticationFailed', 'Authentication')}Exception"
    return _PACKAGE + name


def exception_text(code: int, message: str | None = None) -> str:
    """Return an exception of a code as Java prints it, with a message or that of the code."""
    error = ErrorCode(code)
    text = message or _MESSAGES.get(error) or error.message
    return f"{exception_name(code)}: {text}"


def row_exception(row: Any) -> str:  # noqa: ANN401 - rows of many responses
    """Return the exception of a response, or of a row of it, as Java prints it."""
    return exception_text(row.error_code, getattr(row, "error_message", None))


def execution_exception(row: Any) -> str:  # noqa: ANN401 - as above
    """Return the exception of a response as that of a future, as Java prints it."""
    return _EXECUTION + row_exception(row)


class RefusedError(KafkaToolError):
    """A broker refused a request; the text is the exception of a future, as Java prints it."""


def refused(row: Any) -> RefusedError:  # noqa: ANN401 - as above
    """Return the failure of a tool by a refused request."""
    return RefusedError(execution_exception(row))


def with_cause(text: str) -> str:
    """Return an exception as that of a future, as Java prints it."""
    return _EXECUTION + text


def terse_failure(row: Any) -> KafkaToolError:  # noqa: ANN401 - as above
    """Return the failure of a tool that prints an exception, and then that of its future."""
    text = row_exception(row)
    return KafkaToolError(f"{text}\n{_EXECUTION}{text}")
