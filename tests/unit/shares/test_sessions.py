"""Share sessions: epochs, reported partitions, and owners."""

from __future__ import annotations

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares import sessions
from kafkalite.shares.sessions import (
    SessionKey,
    ShareFetchContext,
    ShareSessions,
    TopicPartition,
    next_epoch,
)

KEY = SessionKey("g", "a")
ONE, TWO = TopicPartition(bytes(16), 0), TopicPartition(bytes(16), 1)


def refused(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.raises(KafkaError, check=lambda error: error.code is code)


class Stage:
    """A cache with room for two sessions."""

    def __init__(self) -> None:
        self.sessions = ShareSessions(lambda: 2)

    def fetch(
        self,
        epoch: int,
        *requested: TopicPartition,
        key: SessionKey = KEY,
        forgotten: tuple[TopicPartition, ...] = (),
        acknowledges: bool = False,
        connection: object = None,
    ) -> ShareFetchContext:
        return self.sessions.begin_fetch(
            key,
            epoch,
            [(each, "t") for each in requested],
            forgotten,
            acknowledges=acknowledges,
            connection=connection,
        )


@pytest.mark.parametrize(("epoch", "following"), [(0, 1), (1, 2), (2**31 - 1, 1), (-1, -1)])
def test_epoch_after_the_largest_is_one(epoch: int, following: int) -> None:
    assert next_epoch(epoch) == following


def test_session_stores_its_partitions() -> None:
    stage = Stage()
    assert list(stage.fetch(0, ONE).topic_names) == [ONE]
    assert list(stage.fetch(1, TWO).topic_names) == [ONE, TWO]
    assert list(stage.fetch(2, forgotten=(ONE,)).topic_names) == [TWO]
    assert stage.fetch(-1).topic_names == {}
    assert stage.sessions.end(KEY) == (TWO,)
    assert stage.sessions.end(KEY) == ()


def test_partitions_of_a_session_are_returned() -> None:
    stage = Stage()
    other = TopicPartition(b"o" * 16, 0)
    assert stage.sessions.partitions_of(KEY) == []
    stage.fetch(0, ONE, TWO, other)
    assert stage.sessions.partitions_of(KEY) == [ONE, TWO, other]
    stage.fetch(1, forgotten=(other,))
    assert stage.sessions.partitions_of(KEY) == [ONE, TWO]


def test_epoch_out_of_order_is_refused() -> None:
    stage = Stage()
    for epoch in (1, -1):
        with refused(ErrorCode.SHARE_SESSION_NOT_FOUND):
            stage.fetch(epoch)
        with refused(ErrorCode.SHARE_SESSION_NOT_FOUND):
            stage.sessions.begin_acknowledge(KEY, epoch)
    stage.fetch(0, ONE)
    for epoch in (2, -2):
        with refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH):
            stage.fetch(epoch)
    with refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH):
        stage.sessions.begin_acknowledge(KEY, 0)
    stage.sessions.begin_acknowledge(KEY, 1)
    stage.sessions.begin_acknowledge(KEY, -1)
    stage.fetch(2)


def test_first_request_with_acknowledgements_or_repetitions_is_refused() -> None:
    stage = Stage()
    with refused(ErrorCode.INVALID_REQUEST):
        stage.fetch(0, ONE, acknowledges=True)
    stage.fetch(0, ONE)
    with refused(ErrorCode.UNKNOWN_SERVER_ERROR):
        stage.fetch(0, ONE, ONE)
    assert len(stage.sessions) == 0


def test_number_of_sessions_is_limited() -> None:
    stage = Stage()
    stage.fetch(0, key=SessionKey("g", "a"))
    stage.fetch(0, key=SessionKey("h", "a"))
    with refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED):
        stage.fetch(0, key=SessionKey("g", "b"))
    stage.fetch(0, key=SessionKey("h", "a"))
    stage.sessions.end(SessionKey("h", "a"))
    assert (stage.sessions.has_group("g"), stage.sessions.has_group("h")) == (True, False)


def test_only_changes_are_reported() -> None:
    stage = Stage()
    first = stage.fetch(0, ONE)
    assert first.must_report(ONE, has_records=False, has_error=False)
    context = stage.fetch(1, TWO)
    reported = [
        context.must_report(each, has_records=False, has_error=False) for each in (ONE, TWO)
    ]
    assert reported == [False, True]
    context = stage.fetch(2)
    assert context.must_report(ONE, has_records=False, has_error=True)
    context = stage.fetch(3)
    assert context.must_report(ONE, has_records=False, has_error=False)
    assert not context.must_report(ONE, has_records=False, has_error=False)
    assert context.must_report(ONE, has_records=True, has_error=False)
    assert list(stage.fetch(4).topic_names) == [TWO, ONE]


def test_response_after_a_newer_request_is_refused() -> None:
    stage = Stage()
    stage.fetch(0, ONE)
    context = stage.fetch(1)
    context.check()
    stage.sessions.begin_acknowledge(KEY, 2)
    with refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH):
        context.check()


def test_sessions_of_a_connection_are_returned() -> None:
    stage = Stage()
    me, you = object(), object()
    stage.fetch(0, connection=me)
    stage.fetch(0, key=SessionKey("g", "b"), connection=you)
    assert list(stage.sessions.sessions_of_connection(me, "g")) == [KEY]
    assert list(stage.sessions.sessions_of_connection(me, "h")) == []
    stage.fetch(0, connection=you)
    assert list(stage.sessions.sessions_of_connection(me, "g")) == []


def test_partitions_of_all_sessions_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_PARTITIONS", 3)
    stage = Stage()
    other = SessionKey("g", "b")
    stage.fetch(0, ONE, TWO)
    with refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED):
        stage.fetch(0, ONE, TWO, key=other)
    stage.fetch(0, ONE, key=other)
    with refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED):
        stage.fetch(1, TWO, key=other)
    stage.fetch(1, forgotten=(ONE, TWO))
    stage.fetch(2, TWO, key=other)
    stage.sessions.end(other)
    stage.fetch(0, ONE, TWO)
