"""Refusals: what a group's clients were refused, and why, noted for whoever asks.

The dispatcher notes every KafkaError that a request with a group id ends in. A handler that turns
KafkaErrors into fields of its answer notes them itself, by `note_refusal`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import Event

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext
    from kafkalite.protocol.errors import KafkaError

REFUSED = "refused"

_TOLD = (
    "member_id", "group_instance_id", "member_epoch", "generation_id",
    "generation_id_or_member_epoch", "transactional_id",
)  # fmt: skip
"""What requests say of the member that sends them."""


def note_refusal(
    context: RequestContext, api: str, group_id: str, error: KafkaError, request: object = None
) -> None:
    """Note that a client was refused something of a group; `request` tells which member asked.

    A message whose facts name the rule and that says what was refused is kept as it is.
    """
    facts: dict[str, object] = {
        "api": api,
        "error": error.code.name,
        "client_id": context.client_id,
        "client_host": context.client_host,
    }
    for name in _TOLD:
        told = getattr(request, name, None)
        if told is not None and told != "":
            facts[name] = told
    if error.facts is not None:
        facts.update(error.facts)
    text = error.message or error.code.message
    if "rule" not in facts or "refused" not in text:
        text = f"{api} refused: {text} ({error.code.name})"
    services = context.services
    services.journal.note(Event(group_id, REFUSED, text, facts), services.clock.now_ms())
