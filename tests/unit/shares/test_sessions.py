"""Share sessions: epochs, what is told, and who they belong to."""

from __future__ import annotations

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares import sessions
from kafkalite.shares.sessions import (
    SessionKey,
    ShareContext,
    ShareSessions,
    TopicPartition,
    next_epoch,
)

KEY = SessionKey("g", "a")
ONE, TWO = TopicPartition(bytes(16), 0), TopicPartition(bytes(16), 1)


def refused(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.raises(KafkaError, check=lambda error: error.code is code)


class Stage:
    """Sessions with room for two."""

    def __init__(self) -> None:
        self.sessions = ShareSessions(lambda: 2)

    def fetch(
        self,
        epoch: int,
        *wanted: TopicPartition,
        key: SessionKey = KEY,
        forgotten: tuple[TopicPartition, ...] = (),
        acknowledges: bool = False,
        owner: object = None,
    ) -> ShareContext:
        return self.sessions.begin_fetch(
            key,
            epoch,
            [(each, "t") for each in wanted],
            forgotten,
            acknowledges=acknowledges,
            owner=owner,
        )


@pytest.mark.parametrize(("epoch", "following"), [(0, 1), (1, 2), (2**31 - 1, 1), (-1, -1)])
def test_epochs_go_round(epoch: int, following: int) -> None:
    assert next_epoch(epoch) == following


def test_a_session_remembers_what_is_wanted() -> None:
    stage = Stage()
    assert list(stage.fetch(0, ONE).names) == [ONE]
    assert list(stage.fetch(1, TWO).names) == [ONE, TWO]
    assert list(stage.fetch(2, forgotten=(ONE,)).names) == [TWO]
    assert stage.fetch(-1).names == {}
    assert stage.sessions.end(KEY) == (TWO,)
    assert stage.sessions.end(KEY) == ()


def test_epochs_are_in_order() -> None:
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


def test_a_first_request_says_nothing_of_records_and_nothing_twice() -> None:
    stage = Stage()
    with refused(ErrorCode.INVALID_REQUEST):
        stage.fetch(0, ONE, acknowledges=True)
    stage.fetch(0, ONE)
    with refused(ErrorCode.UNKNOWN_SERVER_ERROR):
        stage.fetch(0, ONE, ONE)
    assert len(stage.sessions) == 0


def test_there_is_room_for_so_many() -> None:
    stage = Stage()
    stage.fetch(0, key=SessionKey("g", "a"))
    stage.fetch(0, key=SessionKey("h", "a"))
    with refused(ErrorCode.SHARE_SESSION_LIMIT_REACHED):
        stage.fetch(0, key=SessionKey("g", "b"))
    stage.fetch(0, key=SessionKey("h", "a"))
    stage.sessions.end(SessionKey("h", "a"))
    assert (stage.sessions.has_group("g"), stage.sessions.has_group("h")) == (True, False)


def test_news_is_told_and_nothing_else() -> None:
    stage = Stage()
    first = stage.fetch(0, ONE)
    assert first.is_worth_telling(ONE, has_records=False, has_error=False)
    context = stage.fetch(1, TWO)
    told = [
        context.is_worth_telling(each, has_records=False, has_error=False) for each in (ONE, TWO)
    ]
    assert told == [False, True]
    context = stage.fetch(2)
    assert context.is_worth_telling(ONE, has_records=False, has_error=True)
    context = stage.fetch(3)
    assert context.is_worth_telling(ONE, has_records=False, has_error=False)
    assert not context.is_worth_telling(ONE, has_records=False, has_error=False)
    assert context.is_worth_telling(ONE, has_records=True, has_error=False)
    assert list(stage.fetch(4).names) == [TWO, ONE]


def test_an_answer_is_for_the_request_that_is_the_last() -> None:
    stage = Stage()
    stage.fetch(0, ONE)
    context = stage.fetch(1)
    context.check()
    stage.sessions.begin_acknowledge(KEY, 2)
    with refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH):
        context.check()


def test_sessions_have_owners() -> None:
    stage = Stage()
    me, you = object(), object()
    stage.fetch(0, owner=me)
    stage.fetch(0, key=SessionKey("g", "b"), owner=you)
    assert list(stage.sessions.owned_by(me, "g")) == [KEY]
    assert list(stage.sessions.owned_by(me, "h")) == []
    stage.fetch(0, owner=you)
    assert list(stage.sessions.owned_by(me, "g")) == []


def test_sessions_name_only_so_many_partitions_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_PARTITIONS", 3)
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
