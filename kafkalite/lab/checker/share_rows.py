"""Rows of share groups: acquired records and acknowledgements in messages (KIP-932)."""

# ruff: noqa: ANN401 - messages of any API
from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from kafkalite.lab.checker.history import Acknowledgement, Batch, Delivery, Outcome, Range
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.lab.checker.history import Event, Partition
    from kafkalite.storage.batch import BatchView

DELIVERY_LIMIT_KEYS: Final = ("share.delivery.count.limit", "group.share.delivery.count.limit")
"""Names of the setting with the maximum number of deliveries: of a group, and of a broker."""
GROUP_RESOURCE: Final = 32
"""Type of groups in requests for settings."""
ALL_GROUPS: Final = ""
"""Key of the broker's limit in `History.delivery_limits`."""

_SET: Final = 0
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class TypedRange(NamedTuple):
    """Consecutive records with one type of acknowledgement."""

    offsets: Range
    type: int


def header_of(view: BatchView) -> Batch:
    """Return what rules need of a batch's header."""
    return Batch(
        records=view.last_offset_delta + 1,
        crc=view.crc,
        size=view.size,
        producer_id=view.producer_id,
        producer_epoch=view.producer_epoch,
        base_sequence=view.base_sequence,
        is_transactional=view.is_transactional,
        attributes=view.attributes,
    )


def acquired_deliveries(  # noqa: PLR0917 - as in the messages
    event: Event,
    partition: Partition,
    group: str,
    member: str,
    views: Sequence[BatchView],
    acquired: Sequence[Any],
) -> Iterator[Delivery]:
    """Yield the acquired parts of the batches in an answer to ShareFetch.

    The answer has whole batches, although perhaps other members acquired some of their records.
    """
    for view in views:
        if view.is_control:
            continue
        for row in acquired:
            first = max(row.first_offset, view.base_offset)
            last = min(row.last_offset, view.last_offset)
            if first <= last:
                yield Delivery(
                    event=event,
                    partition=partition,
                    batch=header_of(view),
                    first_offset=first,
                    last_offset=last,
                    base_offset=view.base_offset,
                    group=group,
                    member=member,
                    is_read_committed=False,
                    is_aborted=False,
                    delivery_count=row.delivery_count,
                )


def typed_ranges(row: Any) -> Iterator[TypedRange]:
    """Yield the records in an acknowledgement batch; its only type stands for all of them."""
    types = row.acknowledge_types
    if len(types) == 1:
        yield TypedRange(Range(row.first_offset, row.last_offset), types[0])
        return
    for kind, offsets in groupby(
        zip(range(row.first_offset, row.last_offset + 1), types, strict=False), key=_type
    ):
        own = [offset for offset, _ in offsets]
        yield TypedRange(Range(own[0], own[-1]), kind)


def _type(row: tuple[int, int]) -> int:
    return row[1]


def acknowledgements(
    event: Event, partition: Partition, request: Any, row: Any, error_code: int | None
) -> Iterator[Acknowledgement]:
    """Yield the acknowledgements of a partition; `error_code` is None without an answer."""
    if error_code is None:
        outcome = Outcome.UNKNOWN
    else:
        outcome = Outcome.REFUSED if error_code else Outcome.ACCEPTED
    for batch in row.acknowledgement_batches:
        for each in typed_ranges(batch):
            yield Acknowledgement(
                event=event,
                group=request.group_id or "",
                member=request.member_id or "",
                partition=partition,
                first_offset=each.offsets.first,
                last_offset=each.offsets.last,
                type=each.type,
                outcome=outcome,
                error_code=error_code or int(ErrorCode.NONE),
            )


def described_limits(response: Any) -> Iterator[tuple[str, int]]:
    """Yield groups with their delivery limits from an answer to DescribeConfigs."""
    for result in response.results:
        for row in result.configs:
            if row.name in DELIVERY_LIMIT_KEYS and _NUMBER.fullmatch(row.value or ""):
                is_of_group = result.resource_type == GROUP_RESOURCE
                yield result.resource_name if is_of_group else ALL_GROUPS, int(row.value)


def changed_limits(request: Any) -> Iterator[tuple[str, int]]:
    """Yield groups with their delivery limits from a request of IncrementalAlterConfigs."""
    for resource in request.resources:
        for row in resource.configs:
            is_set = row.config_operation == _SET and _NUMBER.fullmatch(row.value or "")
            if row.name in DELIVERY_LIMIT_KEYS and is_set:
                is_of_group = resource.resource_type == GROUP_RESOURCE
                yield resource.resource_name if is_of_group else ALL_GROUPS, int(row.value)
