"""The short way of a heartbeat: a member with nothing new to say, and nothing to be told.

So are nearly all heartbeats. Whoever takes the short way skips the steps of a `ShareBeat`, none of
which would have done anything, and hears what it heard the last time: the answer is made once and
kept in the group's soft state for as long as it is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.share.beat import heard
from kafkalite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from kafkalite.groups.consumer.beat import Client
    from kafkalite.groups.share.beat import ShareBeat, ShareSurroundings
    from kafkalite.groups.share.group import ShareGroup
    from kafkalite.groups.share.sessions import ShareSessions
    from kafkalite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


class SteadyShareAnswers:
    """What members are told that have nothing new to say; kept with the group, in soft state."""

    __slots__ = ("_around", "_sessions")

    def __init__(self, around: ShareSurroundings, sessions: ShareSessions) -> None:
        self._around = around
        self._sessions = sessions

    def settled(self, beat: ShareBeat) -> None:
        """Note that a heartbeat found nothing to be done, if that is so.

        It looked at all that its group is made of, so that the next one need not, until something
        is replayed or the metadata changes. What was asked for and has not come is asked for again
        in a while, so that such a group is never at rest.
        """
        group = beat.group
        if (
            not beat.records
            and group.target_epoch == group.epoch
            and not group.share_partitions().initializing
        ):
            group.soft.settled_turn = self._around.topics_turn

    def to(
        self,
        group: ShareGroup,
        request: ShareGroupHeartbeatRequest,
        client: Client,
        now_ms: int,
    ) -> ShareGroupHeartbeatResponse | None:
        """Take a sign of life and answer it; None, with nothing done, when it is more than that."""
        member_id = request.member_id
        stored = group.members.get(member_id)
        current = group.current.get(member_id)
        if (
            stored is None
            or current is None
            or request.member_epoch != current.member_epoch
            or current.member_epoch != group.target_epoch
            or group.soft.settled_turn != self._around.topics_turn
            or request.subscribed_topic_names is not None
            or heard(stored, request, client) is not stored
        ):
            return None
        settings = self._around.settings.of(group)
        deadline_ms = now_ms + settings.session_timeout_ms
        if not self._sessions.prolong(group.group_id, member_id, deadline_ms):
            return None
        answers = group.soft.answers
        answer = answers.get(member_id)
        if (
            answer is None
            or answer.member_epoch != current.member_epoch
            or answer.heartbeat_interval_ms != settings.heartbeat_interval_ms
        ):
            if len(answers) >= len(group.members):
                answers.clear()  # some are of members that left
            answer = answers[member_id] = ShareGroupHeartbeatResponse(
                member_id=member_id,
                member_epoch=current.member_epoch,
                heartbeat_interval_ms=settings.heartbeat_interval_ms,
            )
        return answer
