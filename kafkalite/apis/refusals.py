"""Refusals: what clients were refused of a group or a transactional id, noted for whoever asks.

The dispatcher notes every KafkaError that a request with such an id ends in. A handler that turns
KafkaErrors into fields of its answer notes them itself, by `note_refusal`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import Event, SubjectKind
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext
    from kafkalite.protocol.errors import KafkaError

REFUSED, FENCED = "refused", "fenced"

_FENCINGS = frozenset((
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
))  # fmt: skip

_TOLD = (
    "member_id", "group_instance_id", "member_epoch", "generation_id",
    "generation_id_or_member_epoch", "group_id", "transactional_id", "producer_id",
    "producer_epoch",
)  # fmt: skip
"""What requests say of the member or the producer that sends them."""


_IDS = {SubjectKind.GROUP: "group_id", SubjectKind.TRANSACTIONAL_ID: "transactional_id"}
"""What requests call the ids of those that entries are kept of."""


def note_refusals(context: RequestContext, api: str, error: KafkaError, request: object) -> None:
    """Note a refusal under each id that the request names, if it names any."""
    for kind, attribute in _IDS.items():
        name = getattr(request, attribute, None)
        if name is not None:
            note_refusal(context, api, name, error, request, of=kind)


def note_refusal(
    context: RequestContext,
    api: str,
    name: str,
    error: KafkaError,
    request: object = None,
    *,
    of: SubjectKind = SubjectKind.GROUP,
) -> None:
    """Note that a client was refused something; `request` tells which member or producer asked.

    `name` is the group's id, or that of another subject. A message whose facts name the rule and
    that says what was refused is kept as it is.
    """
    facts: dict[str, object] = {
        "api": api,
        "error": error.code.name,
        "client_id": context.client_id,
        "client_host": context.client_host,
    }
    for attribute in _TOLD:
        told = getattr(request, attribute, None)
        if told is not None and told != "" and attribute != _IDS[of]:
            facts[attribute] = told
    if error.facts is not None:
        facts.update(error.facts)
    text = error.message or error.code.message
    if "rule" not in facts or "refused" not in text:
        text = f"{api} refused: {text} ({error.code.name})"
    is_fenced = of is SubjectKind.TRANSACTIONAL_ID and error.code in _FENCINGS
    kind = FENCED if is_fenced else REFUSED
    services = context.services
    services.journal.note(Event(name, kind, text, facts, of), services.clock.now_ms())
