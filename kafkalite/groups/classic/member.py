"""ClassicMember: one member of a classic group, as the coordinator knows it between records."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.coordinator.contract import Ticket
    from kafkalite.groups.group import MemberId

UNARMED = 1 << 62
"""`armed_ms` of a member for whom no session timer is set: later than any deadline."""


class ClassicMember:
    """A member and what it is waiting for; all of it soft state.

    `deadline_ms` is when the session ends, `armed_ms` when the timer set for it goes off. A sign of
    life moves the first alone: the timer finds out when it goes off, and is set anew.
    """

    __slots__ = (
        "armed_ms", "assignment", "awaiting_join", "awaiting_sync", "client_host", "client_id",
        "deadline_ms", "group_instance_id", "is_new", "member_id", "protocol_type", "protocols",
        "rebalance_timeout_ms", "session_timeout_ms",
    )  # fmt: skip

    def __init__(
        self,
        *,
        member_id: MemberId,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Sequence[tuple[str, bytes]],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.awaiting_join: Ticket | None = None
        self.awaiting_sync: Ticket | None = None
        self.is_new = False
        """Joined since the last generation began, so not yet bound to heartbeats."""
        self.deadline_ms = 0
        self.armed_ms = UNARMED

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return what the member said under a protocol's name, empty when it did not."""
        return next((data for name, data in self.protocols if name == protocol_name), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """Return the first of its protocols that is a candidate."""
        return next(name for name, _ in self.protocols if name in candidates)

    def has_satisfied_heartbeat(self) -> bool:
        """Whether waiting for an answer of ours stands for heartbeats; not for a new member."""
        return not self.is_new and (
            self.awaiting_join is not None or self.awaiting_sync is not None
        )
