"""Refusals of requests, by group, transactional id, topic or client.

The gateway reports every KafkaError that ends a request: under the group and the transactional id
that the request names, or else under the client. A handler that puts errors into fields of its
response reports them itself by `report_refusal`. The history of the cluster has an entry for each
refusal, which `explain` shows. The exchange of an observed request has its refusals.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from kafkalite.coordinator.contract import Event
from kafkalite.gateway.error_messages import printable
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import ACL_RULE, Entity, Resource
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.gateway.call import Call
    from kafkalite.protocol.acl_operations import Operation
    from kafkalite.protocol.errors import KafkaError

REFUSED, FENCED = "refused", "fenced"

_FENCING_ERRORS = frozenset((
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
))  # fmt: skip

_IDENTIFYING_FIELDS = (
    "member_id", "group_instance_id", "member_epoch", "generation_id",
    "generation_id_or_member_epoch", "group_id", "transactional_id", "producer_id",
    "producer_epoch",
)  # fmt: skip
"""Fields of requests that identify the member or the producer."""


ID_FIELDS = {Entity.GROUP: "group_id", Entity.TRANSACTIONAL_ID: "transactional_id"}
"""Kind of subject → the field of requests that contains its id."""


class Refusal(NamedTuple):
    """The refusal of a request, or of a part of it, about one subject."""

    api: str
    entity_id: str
    """The group's id, the transactional id, the topic's name, or the client's address."""
    error: KafkaError
    request: object = None
    """The request, or the part of it that identifies the member or producer."""
    kind: Entity = Entity.GROUP


MAX_REPORTED: Final = 100
"""The maximum number of refusals of one request that are reported as events."""

_ACL_FACTS = ("principal", "operation", "resource_type", "resource")
_MAX_KIND_LENGTH = 200
_MAX_REASON_LENGTH = 500


def warn_about_denial(call: Call, api: str, error: KafkaError) -> None:
    """Log a refusal by ACLs; those of the same operation on a resource are one kind of warning.

    Other errors are not logged.
    """
    facts = error.facts
    if facts is None or facts.get("rule") != ACL_RULE:
        return
    host = call.client_host.removeprefix("/")
    call.node.warn_about_client(
        host,
        " ".join(str(facts[name]) for name in _ACL_FACTS)[:_MAX_KIND_LENGTH],
        "request refused by ACLs",
        api=api,
        client_id=printable(call.client_id or ""),
        reason=printable(error.explanation or "", _MAX_REASON_LENGTH),
    )


def report_refusal_of_request(call: Call, api: str, error: KafkaError, request: object) -> None:
    """Report a refusal under each id in the request, or under the client if there is none."""
    has_id = False
    for kind, attribute in ID_FIELDS.items():
        entity_id = getattr(request, attribute, None)
        if entity_id:  # OffsetFetch since version 8 has its groups in rows, and this field is empty
            report_refusal(call, api, entity_id, error, request, kind=kind)
            has_id = True
    if not has_id:
        report_refusal_of_client(call, api, error, request)


def report_refusal_of_client(
    call: Call, api: str, error: KafkaError, request: object = None
) -> None:
    """Report the refusal of a request that names no subject, under the address of its client."""
    host = client_address(call)
    if host:
        report_refusal(call, api, host, error, request, kind=Entity.CLIENT)


def report_refusal_of_topic(call: Call, api: str, topic: str, error: KafkaError) -> None:
    """Report that a part of a request was refused, under the name of its topic."""
    report_refusal(call, api, topic, error, kind=Entity.TOPIC)


def report_refused_topics(call: Call, api: str, operation: Operation, names: Iterable[str]) -> None:
    """Report topics that the client of a call may not use; at most MAX_REPORTED of them."""
    permissions = call.permissions
    assert permissions is not None
    for name in islice(names, MAX_REPORTED):
        error = permissions.refusal(operation, Resource.TOPIC, name)
        warn_about_denial(call, api, error)
        report_refusal(call, api, name, error, kind=Entity.TOPIC)


def client_address(call: Call) -> str:
    """Return the address of a client, without the slash of its host in Kafka's format."""
    return call.client_host.removeprefix("/")


def report_refusal(
    call: Call,
    api: str,
    entity_id: str,
    error: KafkaError,
    request: object = None,
    *,
    kind: Entity = Entity.GROUP,
) -> None:
    """Report that a request or a part of it was refused; see `Refusal`."""
    refusal = Refusal(api, entity_id, error, request, kind)
    _record(call, refusal)
    if call.context.exchange is not None:
        call.context.exchange.note_refusal(refusal)


def _record(call: Call, refusal: Refusal) -> None:
    """Write a refusal to the history of the cluster.

    If the error has a rule in its facts, and its explanation says "refused", the explanation is the
    text of the event. Otherwise the text is built from the API, the explanation and the error code.
    """
    api, entity_id, error, request, kind = refusal
    facts: dict[str, object] = {
        "api": api,
        "error": error.code.name,
        "client_id": call.client_id,
        "client_host": call.client_host,
    }
    for attribute in _IDENTIFYING_FIELDS:
        value = getattr(request, attribute, None)
        if value is not None and value != "" and attribute != ID_FIELDS.get(kind):
            facts[attribute] = value
    if error.facts is not None:
        facts.update(error.facts)
    text = error.explanation or error.code.message
    if "rule" not in facts or "refused" not in text:
        text = f"{api} refused: {text} ({error.code.name})"
    is_fenced = kind is Entity.TRANSACTIONAL_ID and error.code in _FENCING_ERRORS
    event_kind = FENCED if is_fenced else REFUSED
    node = call.node
    node.history.add(Event(entity_id, event_kind, text, facts, kind), node.clock.now_ms())
