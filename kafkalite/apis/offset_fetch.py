"""OffsetFetch: committed offsets on their way back to those who asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.apis.contract import Api, Eras
from kafkalite.apis.descriptions import MOST_NOTED
from kafkalite.apis.refusals import note_refusal
from kafkalite.apis.repeats import Repeats
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.apis.context import RequestContext
    from kafkalite.groups.offset import OffsetAndMetadata
    from kafkalite.metadata.image import MetadataImage

RequestGroup = OffsetFetchRequest.OffsetFetchRequestGroup
RequestTopics = OffsetFetchRequest.OffsetFetchRequestTopics
ResponseGroup = OffsetFetchResponse.OffsetFetchResponseGroup
ResponseTopics = OffsetFetchResponse.OffsetFetchResponseTopics
ResponsePartition = OffsetFetchResponse.OffsetFetchResponsePartitions

NO_OFFSET = -1
NO_LEADER_EPOCH = -1

_UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
"""Told instead of an offset that an open transaction may replace, where that matters (KIP-447)."""


def lift_single(request: OffsetFetchRequest) -> OffsetFetchRequest:
    """Make the one group of old versions a batch of one."""
    topics = request.topics
    request.groups = [
        RequestGroup(
            group_id=request.group_id,
            topics=None
            if topics is None
            else [
                RequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in topics
            ],
        )
    ]
    return request


def lower_top_level(response: OffsetFetchResponse) -> OffsetFetchResponse:
    """Put the only group where old versions have it, its error at the top."""
    for group in response.groups:
        response.error_code = group.error_code
        response.topics = [
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponse.OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ]
    return response


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchEra:
    """What a range of OffsetFetch versions means, once its bytes are out of the way."""

    no_offset: ErrorCode = ErrorCode.NONE
    """What is said of a partition without an offset; the oldest clients know no -1."""
    partitions_tell_group_error: bool = False
    """There is no field for an error of the whole group."""
    names_topic_ids: bool = False
    lift: Callable[[OffsetFetchRequest], OffsetFetchRequest] | None = None
    lower: Callable[[OffsetFetchResponse], OffsetFetchResponse] | None = None


OFFSET_FETCH_ERAS = Eras(
    (
        0,
        OffsetFetchEra(
            no_offset=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            partitions_tell_group_error=True,
            lift=lift_single,
            lower=lower_top_level,
        ),
    ),
    (
        1,
        OffsetFetchEra(partitions_tell_group_error=True, lift=lift_single, lower=lower_top_level),
    ),
    (2, OffsetFetchEra(lift=lift_single, lower=lower_top_level)),
    (8, OffsetFetchEra()),
    (10, OffsetFetchEra(names_topic_ids=True)),
)

GROUP_ERRORS = {ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_COORDINATOR}
"""OffsetFetch sends its client to look for another coordinator where others say wait."""


def handle_offset_fetch(
    context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """Return what each group has committed; an unknown group has committed nothing."""
    repeats = Repeats()
    return OffsetFetchResponse(
        groups=[
            _fetch(context, group, repeats, request.require_stable, is_noted=index < MOST_NOTED)
            for index, group in enumerate(request.groups)
        ]
    )


class _Shelf(NamedTuple):
    """What there is of one group, and how its client wants to be answered."""

    group_id: str
    stored: Mapping[str, Mapping[int, OffsetAndMetadata]]
    pending: Mapping[str, Mapping[int, object]]
    """Where an open transaction has committed something; nothing, to clients that do not care."""
    image: MetadataImage
    era: OffsetFetchEra
    repeats: Repeats


def _fetch(
    context: RequestContext,
    group: RequestGroup,
    repeats: Repeats,
    wants_stable: bool,  # noqa: FBT001 - as the request has it
    *,
    is_noted: bool,
) -> ResponseGroup:
    era: OffsetFetchEra = context.era
    group_id = group.group_id
    try:
        if group.topics is None:
            repeats.check(group_id)
        offsets = context.services.groups.locate(group_id, context.node_id).machine.offsets
        stored = offsets.readable(group_id, group.member_id, group.member_epoch)
    except KafkaError as refusal:
        if is_noted:
            note_refusal(context, "OffsetFetch", group_id, refusal, group)
        return _refused(group, GROUP_ERRORS.get(refusal.code, refusal.code), era)
    pending = offsets.pending.of_group(group_id) if wants_stable else {}
    image = context.services.metadata.image
    shelf = _Shelf(group_id, stored, pending, image, era, repeats)
    if group.topics is None:
        topics = _all_topics(shelf)
    else:
        topics = [_one_topic(shelf, wanted) for wanted in group.topics]
    return ResponseGroup(group_id=group_id, error_code=ErrorCode.NONE, topics=topics)


def _all_topics(shelf: _Shelf) -> list[ResponseTopics]:
    """Return every offset; a topic that has lost its id is left out where ids are the names."""
    topics = []
    for name, partitions in shelf.stored.items():
        found = shelf.image.topics.get(name)
        if shelf.era.names_topic_ids and found is None:
            continue
        pending = shelf.pending.get(name, ())
        topics.append(
            ResponseTopics(
                name=name,
                topic_id=ZERO_UUID if found is None else found.topic_id,
                partitions=[
                    _missing(index, _UNSTABLE) if index in pending else _found(index, committed)
                    for index, committed in partitions.items()
                ],
            )
        )
    return topics


def _one_topic(shelf: _Shelf, wanted: RequestTopics) -> ResponseTopics:
    name, missing, topic_id = wanted.name, shelf.era.no_offset, ZERO_UUID
    if shelf.era.names_topic_ids:
        topic = shelf.image.topics_by_id.get(wanted.topic_id)
        missing = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.NONE
        name = "" if topic is None else topic.name
        topic_id = wanted.topic_id
    elif (known := shelf.image.topics.get(name)) is not None:
        topic_id = known.topic_id
    partitions, pending = shelf.stored.get(name, {}), shelf.pending.get(name, ())
    answers = []
    for index in wanted.partition_indexes:
        committed = partitions.get(index)
        if index in pending:
            answers.append(_missing(index, _UNSTABLE))
        elif committed is None or not _is_of(committed, topic_id):
            answers.append(_missing(index, missing))
        elif committed.metadata and not shelf.repeats.are_within_limits(
            (shelf.group_id, name, index)
        ):
            answers.append(_missing(index, ErrorCode.INVALID_REQUEST))
        else:
            answers.append(_found(index, committed))
    return ResponseTopics(name=wanted.name, topic_id=wanted.topic_id, partitions=answers)


def _is_of(committed: OffsetAndMetadata, topic_id: bytes) -> bool:
    """Whether an offset was not committed for another topic that had the same name."""
    return committed.topic_id == topic_id or ZERO_UUID in (committed.topic_id, topic_id)


def _found(index: int, committed: OffsetAndMetadata) -> ResponsePartition:
    return ResponsePartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=ErrorCode.NONE,
    )


def _missing(index: int, code: ErrorCode) -> ResponsePartition:
    return ResponsePartition(
        partition_index=index,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
        error_code=code,
    )


def _refused(group: RequestGroup, code: ErrorCode, era: OffsetFetchEra) -> ResponseGroup:
    topics = []
    if era.partitions_tell_group_error:
        topics = [
            ResponseTopics(
                name=wanted.name,
                topic_id=wanted.topic_id,
                partitions=[_missing(index, code) for index in wanted.partition_indexes],
            )
            for wanted in group.topics or ()
        ]
    return ResponseGroup(group_id=group.group_id, error_code=code, topics=topics)


def refuse_offset_fetch(
    request: OffsetFetchRequest, code: ErrorCode, message: str | None
) -> OffsetFetchResponse:
    """Say an error of every group; there is no field for a message."""
    del message
    every_era = OFFSET_FETCH_ERAS.at(0)
    return OffsetFetchResponse(
        groups=[_refused(group, code, every_era) for group in request.groups]
    )


def lift_offset_fetch(request: OffsetFetchRequest, version: int) -> OffsetFetchRequest:
    """Return the request as a batch of groups."""
    lift = OFFSET_FETCH_ERAS.at(version).lift
    return request if lift is None else lift(request)


def lower_offset_fetch(response: OffsetFetchResponse, version: int) -> OffsetFetchResponse:
    """Return the response in the shape this version has."""
    lower = OFFSET_FETCH_ERAS.at(version).lower
    return response if lower is None else lower(response)


APIS = (
    Api(
        key=9,
        versions=Versions(0, 10),
        handler=handle_offset_fetch,
        refuse=refuse_offset_fetch,
        eras=OFFSET_FETCH_ERAS,
        lift=lift_offset_fetch,
        lower=lower_offset_fetch,
    ),
)
