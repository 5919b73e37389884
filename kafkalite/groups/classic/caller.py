"""Caller: who sent a request to a classic group, and what its version of the API lets it do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client of a JoinGroup, as describing the group will show it."""

    client_id: str
    client_host: str
    requires_known_member_id: bool = True
    """Whether a new dynamic member is sent away with its id first (KIP-394)."""
    supports_skipping_assignment: bool = True
    """Whether a leader that comes back can be told not to assign anew (KIP-814)."""
