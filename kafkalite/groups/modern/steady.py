"""SteadyHeartbeats: the fast path for heartbeats without any change.

Most heartbeats report no change and need no new assignment. The response is cached in the group's
soft state as long as it is valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.groups.group import GroupId, MemberId
    from kafkalite.groups.modern.context import GroupContext
    from kafkalite.groups.modern.member import Client
    from kafkalite.groups.modern.sessions import Sessions


class HeartbeatRequest(Protocol):
    """The fields that heartbeat requests of all group types have."""

    group_id: GroupId
    member_id: MemberId
    member_epoch: int


class HeartbeatAnswer(Protocol):
    """The fields that heartbeat responses of all group types have."""

    member_epoch: int
    heartbeat_interval_ms: int


Q = TypeVar("Q", bound=HeartbeatRequest)
A = TypeVar("A", bound=HeartbeatAnswer)


class SteadyHeartbeats(Generic[Q, A]):
    """The fast path for the heartbeats of one group type."""

    __slots__ = (
        "_context",
        "_group_class",
        "_groups",
        "_is_steady",
        "_make_response",
        "_sessions",
        "_settings",
    )  # fmt: skip

    def __init__(
        self,
        context: GroupContext[Any],
        sessions: Sessions,
        group_class: type,
        is_steady: Callable[[Any, Any, Any, Any, Q, Client, Any], bool],
        make_response: Callable[..., A],
    ) -> None:
        self._context = context
        self._settings = context.settings
        self._groups = context.directory.groups
        self._sessions = sessions
        self._group_class: Any = group_class
        self._is_steady = is_steady
        """(context, group, member, current, request, client, settings) → is steady."""
        self._make_response = make_response

    def answer(self, request: Q, client: Client, now_ms: int) -> A | None:
        """Extend the session and return the response; None, without effect, if anything changes."""
        group: Any = self._groups.get(request.group_id)
        if type(group) is not self._group_class:
            return None
        member_id = request.member_id
        member = group.members.get(member_id)
        current = group.current.get(member_id)
        if member is None or current is None or request.member_epoch != current.member_epoch:
            return None
        settings = self._settings.of(group)
        if not self._is_steady(self._context, group, member, current, request, client, settings):
            return None
        deadline_ms = now_ms + settings.session_timeout_ms
        if not self._sessions.try_extend(group.group_id, member_id, deadline_ms):
            return None
        answers: dict[MemberId, A] = group.soft.answers
        answer = answers.get(member_id)
        if (
            answer is None
            or answer.member_epoch != current.member_epoch
            or answer.heartbeat_interval_ms != settings.heartbeat_interval_ms
        ):
            if len(answers) >= len(group.members):
                answers.clear()  # some belong to removed members
            answer = answers[member_id] = self._make_response(
                member_id=member_id,
                member_epoch=current.member_epoch,
                heartbeat_interval_ms=settings.heartbeat_interval_ms,
            )
        return answer
