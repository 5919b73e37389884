"""Answers that faults change: altered bytes, wrong checksums of records, and throttle times."""

# ruff: noqa: ANN401 - requests and responses of any API
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.gateway.error_messages import truncate_message
from kafkalite.gateway.fault_rules import MAX_DELAY_MS, AlteredBytes
from kafkalite.gateway.refusals import report_refusal_of_request
from kafkalite.gateway.steps import AlteredAnswer, DisconnectError
from kafkalite.gateway.throttling import with_throttle_time
from kafkalite.ports.waiting import Waiting, chain
from kafkalite.protocol.catalogue import row
from kafkalite.protocol.codec import response_class
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.message import with_fields
from kafkalite.storage.batch import CRC_END, HEADER_SIZE, BatchView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.fault_rules import Action
    from kafkalite.gateway.steps import Handler
    from kafkalite.protocol.api_keys import ApiKey

_BODY_START: Final = 8
"""Position after the length and the correlation id, which clients need to find the request."""


def may_change_answer(action: Action, key: ApiKey) -> bool:
    """Return whether the answers of an API have what an action changes."""
    if action.throttle_ms and "throttle_time_ms" not in response_class(key).__slots__:
        return False
    return action.answer is not AlteredBytes.CORRUPTED_RECORDS or bool(row(key).response.records)


def refusal_or_answer(handler: Handler, call: Call, request: object) -> Any:
    """Return the answer of a handler, or the KafkaError by which it refuses the request."""
    try:
        return handler(call, request)
    except KafkaError as error:
        return error.without_traceback()


def throttle(api: Api, handler: Handler, call: Call, request: Any, throttle_ms: int) -> Any:
    """Handle a request, answer with a throttle time, and mute the connection for as long."""

    def answer(response: Any) -> Waiting[Any]:
        if isinstance(response, KafkaError):
            report_refusal_of_request(call, api.name, response, request)
            message = truncate_message(response.message)
            response = api.refuse(request, response.code, message)
        if call.connection is not None:
            call.connection.mute(throttle_ms)
        return with_throttle_time(response, throttle_ms)

    return chain(refusal_or_answer(handler, call, request), answer, _only_refusals(answer))


def alter_bytes(
    altered: AlteredBytes, handler: Handler, call: Call, request: Any, reason: str
) -> Any:
    """Handle a request, and alter the bytes of the answer.

    Raises DisconnectError with the reason, directly or by the Waiting, if another node sent the
    request: no bytes are sent then.
    """

    def answer(response: Any) -> Waiting[Any]:
        if call.sender is not None:
            raise DisconnectError(reason)
        arrived: Waiting[Any] = Waiting()
        if altered is AlteredBytes.PARTIAL and call.connection is not None:
            call.connection.mute(MAX_DELAY_MS)
        is_closed = altered is AlteredBytes.TRUNCATED
        arrived.resolve(
            response
            if response is None
            else AlteredAnswer(response, _ALTERATIONS[altered], reason if is_closed else None)
        )
        return arrived

    return chain(refusal_or_answer(handler, call, request), answer, _only_refusals(answer))


def _only_refusals(answer: Callable[[Any], Any]) -> Callable[[Exception], Any]:
    """Return a function that answers KafkaErrors, and raises other exceptions."""

    def recover(error: Exception) -> Any:
        if not isinstance(error, KafkaError):
            raise error
        return answer(error)

    return recover


def _first_half(frame: bytes) -> bytes:
    return frame[: len(frame) // 2]


def _inverted(frame: bytes) -> bytes:
    return frame[:_BODY_START] + bytes(byte ^ 0xFF for byte in frame[_BODY_START:])


def _swapped(frame: bytes) -> bytes:
    middle = (_BODY_START + len(frame)) // 2
    return frame[:_BODY_START] + frame[middle:] + frame[_BODY_START:middle]


_ALTERATIONS: Final[Mapping[AlteredBytes, Callable[[bytes], bytes]]] = {
    AlteredBytes.TRUNCATED: _first_half,
    AlteredBytes.PARTIAL: _first_half,
    AlteredBytes.CORRUPTED: _inverted,
    AlteredBytes.REORDERED: _swapped,
}


def corrupt_records(
    key: ApiKey, response: Any, is_selected: Callable[[str | bytes, int], bool]
) -> Any:
    """Return a copy of a response in which records of selected partitions have wrong checksums.

    Returns the response itself if it has no records of these partitions. `is_selected` gets the
    name or the id of a topic, and the index of a partition.
    """
    topics_field, partitions_field, records_field = row(key).response.records.split(".")
    has_changed = False

    def changed_partition(topic: str | bytes, partition: Any) -> Any:
        nonlocal has_changed
        records = getattr(partition, records_field)
        if not records or not is_selected(topic, partition.partition_index):
            return partition
        has_changed = True
        return with_fields(partition, **{records_field: _with_wrong_checksums(records)})

    def changed_topic(topic: Any) -> Any:
        name = getattr(topic, "topic", "") or topic.topic_id
        partitions = getattr(topic, partitions_field)
        changed = [changed_partition(name, partition) for partition in partitions]
        return with_fields(topic, **{partitions_field: changed})

    topics = [changed_topic(topic) for topic in getattr(response, topics_field)]
    return with_fields(response, **{topics_field: topics}) if has_changed else response


def _with_wrong_checksums(records: bytes | memoryview) -> bytes:
    """Return record batches, the last of which may be incomplete, with wrong checksums."""
    changed = bytearray(records)
    position = 0
    while position + HEADER_SIZE <= len(changed):
        changed[position + CRC_END - 1] ^= 0xFF
        position += BatchView(memoryview(changed)[position:]).size
    return bytes(changed)
