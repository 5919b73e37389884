"""Reconciliation steps that partitions and tasks have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import IntEnum

K = TypeVar("K")
C = TypeVar("C")


def are_retained(
    held: Mapping[K, Mapping[int, int]],
    assigned: Mapping[K, Mapping[int, int]],
    pending: Mapping[K, Mapping[int, int]],
) -> bool:
    """Whether the member still has everything in `held` at the same assignment epochs."""
    return all(
        epochs == assigned.get(key)
        or epochs.items() <= assigned.get(key, {}).items() | pending.get(key, {}).items()
        for key, epochs in held.items()
    )


def advance(
    current: C, epoch: int, state: IntEnum, *, assigned: object, pending: object, revoked: bool
) -> C:
    """Return the next state of a member, or `current` itself if nothing changes."""
    before: Any = current
    revocation = before.revocation.after_step(before.member_epoch, epoch, revoked=revoked)
    next_state: C = replace(
        before,
        member_epoch=epoch,
        previous_member_epoch=before.member_epoch,
        state=state,
        assigned=assigned,
        pending_revocation=pending,
        revocation=revocation,
    )
    return current if next_state == current else next_state
