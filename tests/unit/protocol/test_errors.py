"""KafkaError and ProtocolViolation."""

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation, is_bug


def test_kafka_error_has_a_code_and_optional_message() -> None:
    error = KafkaError(ErrorCode.INVALID_REQUEST, "two of a kind")
    assert (error.code, error.message) == (ErrorCode.INVALID_REQUEST, "two of a kind")
    assert str(error) == "INVALID_REQUEST: two of a kind"
    assert KafkaError(ErrorCode.INVALID_REQUEST).message is None
    assert str(KafkaError(ErrorCode.INVALID_REQUEST)) == "INVALID_REQUEST"


def test_a_violation_has_a_reason_for_the_log() -> None:
    assert ProtocolViolation("a length of -2").reason == "a length of -2"


def test_stored_error_refers_to_no_frame() -> None:
    error = KafkaError(ErrorCode.INVALID_REQUEST)
    with pytest.raises(KafkaError):
        raise error
    error.__context__ = LookupError()
    stored = error.without_traceback()
    assert stored is error
    assert stored.__traceback__ is None
    assert stored.__context__ is None


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (LookupError(), True),
        (ValueError(), True),
        (KafkaError(ErrorCode.INVALID_REQUEST), False),
        (ProtocolViolation("a length of -2"), False),
        ("an answer", False),
    ],
)
def test_other_exceptions_are_bugs(*, outcome: object, expected: bool) -> None:
    assert is_bug(outcome) is expected
