"""ClassicMember: one member of a classic group, with its timer and waiting requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.coordinator.contract import Ticket
    from kafkalite.groups.group import MemberId
    from kafkalite.groups.modern.member import MayDescribe

NO_TIMER_MS = 1 << 62
"""`timer_deadline_ms` of a member without a session timer: later than any deadline."""


class ClassicMember:
    """A member and its waiting requests; all of it is soft state.

    `deadline_ms` is the end of the session, `timer_deadline_ms` the time of its timer. A heartbeat
    changes only the deadline. When the timer expires before the deadline, it is set again.
    """

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "deadline_ms",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "timer_deadline_ms",
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
        """Whether it joined after the generation started, so it cannot send heartbeats yet."""
        self.deadline_ms = 0
        self.timer_deadline_ms = NO_TIMER_MS

    @property
    def client(self) -> str:
        """The member's client, for people."""
        return f"client {self.client_id or '(no id)'} at {self.client_host}"

    def client_facts(self) -> dict[str, str]:
        """Return the facts of an event that name the member's client."""
        return {"client_id": self.client_id, "client_host": self.client_host}

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return the member's metadata for a protocol, b"" if it does not support it."""
        return next((data for name, data in self.protocols if name == protocol_name), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """Return the first candidate among its protocols."""
        return next(name for name, _ in self.protocols if name in candidates)

    def has_satisfied_heartbeat(self) -> bool:
        """Whether a waiting request replaces heartbeats; for a new member none does."""
        return not self.is_new and (
            self.awaiting_join is not None or self.awaiting_sync is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client that sent a JoinGroup."""

    client_id: str
    client_host: str
    requires_known_member_id: bool = True
    """Whether a new dynamic member must rejoin with the member id it is given (KIP-394)."""
    supports_skipping_assignment: bool = True
    """Whether a returning static leader can skip the assignment (KIP-814)."""
    may_describe: MayDescribe | None = None
    """None if it may describe all topics."""
