"""What all requests of transactional producers have in common.

A fenced producer is told PRODUCER_FENCED, a word that the oldest versions of each request lack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafkalite.apis.contract import Eras
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext
    from kafkalite.coordinator.active import ActiveShard
    from kafkalite.transactions.shard import TransactionShard


class Answer(Protocol):
    """A response with one error for all of it."""

    error_code: int


R = TypeVar("R", bound=Answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingEra:
    """Which error a range of versions tells a producer that was fenced."""

    knows_fenced: bool = True

    def told(self, code: ErrorCode) -> ErrorCode:
        """Return an error as this version has it."""
        if code is ErrorCode.PRODUCER_FENCED and not self.knows_fenced:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return code


def fencing_eras(*, knows_fenced_from: int) -> Eras[FencingEra]:
    """Return the eras of a request whose versions differ in nothing else."""
    return Eras((0, FencingEra(knows_fenced=False)), (knows_fenced_from, FencingEra()))


def lower_fenced(response: R, era: FencingEra) -> R:
    """Say the response's error in a word that the client knows."""
    response.error_code = era.told(ErrorCode(response.error_code))
    return response


def shard_of(context: RequestContext, transactional_id: str) -> ActiveShard[TransactionShard]:
    """Return the shard that keeps an id, if this node speaks for it.

    KafkaError INVALID_REQUEST for an id that is empty, which has no coordinator anywhere, or
    NOT_COORDINATOR.
    """
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    return context.services.transactions.locate(transactional_id, context.node_id)
