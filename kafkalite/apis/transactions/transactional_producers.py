"""Functions for all APIs of transactional producers: shard lookup and errors of fenced producers.

The error of a fenced producer is PRODUCER_FENCED. The oldest versions of each API do not have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafkalite.gateway.api import Eras
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.coordinator.active_shard import ActiveShard
    from kafkalite.gateway.call import Call
    from kafkalite.transactions.shard import TransactionShard


class ResponseWithError(Protocol):
    """A response with one error for the whole request."""

    error_code: int


R = TypeVar("R", bound=ResponseWithError)


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingEra:
    """The error for a fenced producer in a range of versions."""

    knows_fenced: bool = True

    def error_for(self, code: ErrorCode) -> ErrorCode:
        """Return the error code that this version has for an error."""
        if code is ErrorCode.PRODUCER_FENCED and not self.knows_fenced:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return code


def fencing_eras(*, knows_fenced_from: int) -> Eras[FencingEra]:
    """Return the eras of an API whose versions differ only in the error for a fenced producer."""
    return Eras((0, FencingEra(knows_fenced=False)), (knows_fenced_from, FencingEra()))


def lower_fencing_error(response: R, era: FencingEra) -> R:
    """Replace the error of a response by one that this version knows."""
    if response.error_code:
        response.error_code = era.error_for(ErrorCode(response.error_code))
    return response


def shard_of(call: Call, transactional_id: str) -> ActiveShard[TransactionShard]:
    """Return the shard of a transactional id, if this node coordinates it.

    Raises KafkaError INVALID_REQUEST for an empty id, and NOT_COORDINATOR.
    """
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    return call.node.transactions.locate(transactional_id, call.node.id)
