"""Error codes: numbers, retriable codes and messages."""

from kafkalite.protocol.error_codes import ErrorCode


def test_a_code_is_a_number_on_the_wire() -> None:
    assert int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == 3
    assert ErrorCode(-1) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_retriable_errors_are_marked() -> None:
    assert ErrorCode.NOT_COORDINATOR.retriable
    assert not ErrorCode.UNKNOWN_MEMBER_ID.retriable


def test_every_code_has_a_message() -> None:
    assert all(code.message.endswith(".") for code in ErrorCode)


def test_codes_of_kip_232_are_outside_the_range_of_kafka() -> None:
    assert int(ErrorCode.INVALID_PARTITION_EPOCH) == 10232
    assert int(ErrorCode.INVALID_LEADER_EPOCH) == 10233
    assert not ErrorCode.INVALID_PARTITION_EPOCH.retriable
    assert not ErrorCode.INVALID_LEADER_EPOCH.retriable
