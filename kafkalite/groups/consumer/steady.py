"""The short way of a heartbeat: a member with nothing new to say, and nothing to be told.

So are nearly all heartbeats. Whoever takes the short way skips the steps of a `Beat`, none of which
would have done anything, and hears what it heard the last time: the answer is made once and kept
in the group's soft state for as long as it is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.consumer.beat import heard, is_full_request
from kafkalite.groups.consumer.incarnations import showed_epoch
from kafkalite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from kafkalite.groups.consumer.beat import Client
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.consumer.sessions import Sessions
    from kafkalite.groups.consumer.surroundings import Surroundings
    from kafkalite.groups.group import MemberId
    from kafkalite.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
    )


class SteadyAnswers:
    """What members are told that have nothing new to say; kept with the group, in soft state."""

    __slots__ = ("_around", "_sessions")

    def __init__(self, around: Surroundings, sessions: Sessions) -> None:
        self._around = around
        self._sessions = sessions

    def to(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        now_ms: int,
    ) -> ConsumerGroupHeartbeatResponse | None:
        """Take a sign of life and answer it; None, with nothing done, when it is more than that."""
        member_id = request.member_id
        stored = group.members.get(member_id)
        current = group.current.get(member_id)
        if (
            stored is None
            or current is None
            or request.member_epoch != current.member_epoch
            or request.instance_id != stored.instance_id
            or group.epoch != group.target_epoch
            or not current.is_reconciled_to(group.target_epoch)
            or heard(stored, request, client) is not stored
            or is_full_request(request)
            or group.regex_subscribers
            or not self._around.has_seen_topics(group)
        ):
            return None
        settings = self._around.settings.of(group)
        deadline_ms = now_ms + settings.session_timeout_ms
        if not self._sessions.prolong(group.group_id, member_id, deadline_ms):
            return None
        answer = group.soft.answers.get(member_id)
        if (
            answer is None
            or answer.member_epoch != current.member_epoch
            or answer.heartbeat_interval_ms != settings.heartbeat_interval_ms
        ):
            answer = ConsumerGroupHeartbeatResponse(
                member_id=member_id,
                member_epoch=current.member_epoch,
                heartbeat_interval_ms=settings.heartbeat_interval_ms,
            )
            _keep(group, member_id, answer)
            if settings.compares_incarnations:
                showed_epoch(group, member_id)
        return answer


def _keep(
    group: ConsumerGroup, member_id: MemberId, answer: ConsumerGroupHeartbeatResponse
) -> None:
    answers = group.soft.answers
    if len(answers) >= len(group.members):
        answers.clear()  # some are of members that left
    answers[member_id] = answer
