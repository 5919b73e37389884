"""OffsetFetch: returns the committed offsets of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.apis.duplicates import DuplicateLimit
from kafkalite.gateway.api import Api, Eras
from kafkalite.gateway.refusals import MAX_REPORTED, report_refusal
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.turns import in_steps, pausing
from kafkalite.protocol._generated.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.gateway.call import Call
    from kafkalite.groups.group import OffsetAndMetadata
    from kafkalite.metadata.image import MetadataImage

RequestGroup = OffsetFetchRequest.OffsetFetchRequestGroup
RequestTopics = OffsetFetchRequest.OffsetFetchRequestTopics
ResponseGroup = OffsetFetchResponse.OffsetFetchResponseGroup
ResponseTopics = OffsetFetchResponse.OffsetFetchResponseTopics
ResponsePartition = OffsetFetchResponse.OffsetFetchResponsePartitions

NO_OFFSET = -1
NO_LEADER_EPOCH = -1

_UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
"""The error code of offsets that an open transaction may replace (KIP-447)."""


def lift_single_group(request: OffsetFetchRequest) -> OffsetFetchRequest:
    """Convert the single group of earlier versions to a list."""
    topics = request.topics
    request.groups = [
        RequestGroup(
            group_id=request.group_id,
            topics=None
            if topics is None
            else pausing(
                [
                    RequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                    for topic in topics
                ]
            ),
        )
    ]
    return request


def lower_single_group(response: OffsetFetchResponse) -> OffsetFetchResponse:
    """Copy the only group and its error to the top-level fields of earlier versions."""
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
                        incarnation_epoch=partition.incarnation_epoch,
                    )
                    for partition in in_steps(topic.partitions)
                ],
            )
            for topic in in_steps(group.topics)
        ]
    return response


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchEra:
    """Traits of a range of OffsetFetch versions."""

    no_offset_code: ErrorCode = ErrorCode.NONE
    """The error code of a partition without an offset; v0 has an error instead of offset -1."""
    reports_group_error_per_partition: bool = False
    """Whether there is no error field for the whole group."""
    stores_in_zookeeper: bool = False
    """Whether offsets were read from ZooKeeper, which a cluster with KRaft does not have."""
    uses_topic_ids: bool = False
    lift: Callable[[OffsetFetchRequest], OffsetFetchRequest] | None = None
    lower: Callable[[OffsetFetchResponse], OffsetFetchResponse] | None = None


OFFSET_FETCH_ERAS = Eras(
    (
        0,
        OffsetFetchEra(
            no_offset_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            reports_group_error_per_partition=True,
            stores_in_zookeeper=True,
            lift=lift_single_group,
            lower=lower_single_group,
        ),
    ),
    (
        1,
        OffsetFetchEra(
            reports_group_error_per_partition=True, lift=lift_single_group, lower=lower_single_group
        ),
    ),
    (2, OffsetFetchEra(lift=lift_single_group, lower=lower_single_group)),
    (8, OffsetFetchEra()),
    (10, OffsetFetchEra(uses_topic_ids=True)),
)

GROUP_ERRORS = {ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_COORDINATOR}
"""Error codes that OffsetFetch maps to others, as in Kafka."""


def handle_offset_fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Return the committed offsets of each group; an unknown group has none.

    Raises KafkaError UNSUPPORTED_VERSION for offsets that were stored in ZooKeeper, if the release
    is one that had ZooKeeper.
    """
    era: OffsetFetchEra = call.era
    rules = call.node.config.release.rules
    if era.stores_in_zookeeper and not rules.reads_old_offset_fetches:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    duplicate_limit = DuplicateLimit()
    return OffsetFetchResponse(
        groups=[
            _fetch(
                call,
                group,
                duplicate_limit,
                request.require_stable,
                is_reported=index < MAX_REPORTED,
            )
            for index, group in enumerate(request.groups)
        ]
    )


class _GroupOffsets(NamedTuple):
    """The offsets of one group, and the properties of its response."""

    group_id: str
    stored: Mapping[str, Mapping[int, OffsetAndMetadata]]
    pending: Mapping[str, Mapping[int, object]]
    """Partitions with pending offsets; empty unless the client requires stable offsets."""
    image: MetadataImage
    era: OffsetFetchEra
    duplicate_limit: DuplicateLimit
    has_partition_epochs: bool
    """Whether the response contains partition epochs (KIP-232)."""


def _fetch(
    call: Call,
    group: RequestGroup,
    duplicate_limit: DuplicateLimit,
    requires_stable: bool,  # noqa: FBT001 - as the request has it
    *,
    is_reported: bool,
) -> ResponseGroup:
    era: OffsetFetchEra = call.era
    group_id = group.group_id
    try:
        if group.topics is None:
            duplicate_limit.check(group_id)
        offsets = call.node.groups.locate(group_id, call.node.id).machine.offsets
        stored = offsets.offsets_to_fetch(group_id, group.member_id, group.member_epoch)
    except KafkaError as refusal:
        if is_reported:
            report_refusal(call, "OffsetFetch", group_id, refusal, group)
        code = GROUP_ERRORS.get(refusal.code, refusal.code)
        if not call.node.config.release.rules.reports_group_errors_by_partition:
            return ResponseGroup(group_id=group_id, error_code=code, topics=[])
        return group_error(group, code, era)
    pending = offsets.pending.of_group(group_id) if requires_stable else {}
    image = call.node.image
    has_partition_epochs = call.node.config.uses_partition_epochs
    group_offsets = _GroupOffsets(
        group_id, stored, pending, image, era, duplicate_limit, has_partition_epochs
    )
    topics = (
        _all_topics(group_offsets)
        if group.topics is None
        else _requested_topics(group_offsets, group.topics)
    )
    return ResponseGroup(group_id=group_id, error_code=ErrorCode.NONE, topics=topics)


def _all_topics(group_offsets: _GroupOffsets) -> list[ResponseTopics]:
    """Return all offsets; deleted topics are omitted in versions with topic ids."""
    topics = []
    for name, partitions in in_steps(group_offsets.stored.items()):
        topic = group_offsets.image.topics.get(name)
        if group_offsets.era.uses_topic_ids and topic is None:
            continue
        pending = group_offsets.pending.get(name, ())
        topics.append(
            ResponseTopics(
                name=name,
                topic_id=ZERO_UUID if topic is None else topic.topic_id,
                partitions=[
                    partition_without_offset(index, _UNSTABLE)
                    if index in pending
                    else _partition_with_offset(group_offsets, index, committed)
                    for index, committed in in_steps(partitions.items())
                ],
            )
        )
    return topics


def _requested_topics(
    group_offsets: _GroupOffsets, requested: Sequence[RequestTopics]
) -> list[ResponseTopics]:
    """Return the requested topics in order; topics with an unknown id are last, as in Kafka."""
    if not group_offsets.era.uses_topic_ids:
        return [_requested_topic(group_offsets, topic) for topic in requested]
    known = group_offsets.image.topics_by_id
    return [
        _requested_topic(group_offsets, topic)
        for is_known in (True, False)
        for topic in requested
        if (topic.topic_id in known) is is_known
    ]


def _requested_topic(group_offsets: _GroupOffsets, requested: RequestTopics) -> ResponseTopics:
    name, missing_code, topic_id = requested.name, group_offsets.era.no_offset_code, ZERO_UUID
    if group_offsets.era.uses_topic_ids:
        topic = group_offsets.image.topics_by_id.get(requested.topic_id)
        missing_code = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.NONE
        name = "" if topic is None else topic.name
        topic_id = requested.topic_id
    elif (known := group_offsets.image.topics.get(name)) is not None:
        topic_id = known.topic_id
    partitions, pending = group_offsets.stored.get(name, {}), group_offsets.pending.get(name, ())
    answers = []
    for index in requested.partition_indexes:
        committed = partitions.get(index)
        if index in pending:
            answers.append(partition_without_offset(index, _UNSTABLE))
        elif committed is None or not _is_for_topic(committed, topic_id):
            answers.append(partition_without_offset(index, missing_code))
        elif committed.metadata and not group_offsets.duplicate_limit.allows(
            (group_offsets.group_id, name, index)
        ):
            answers.append(partition_without_offset(index, ErrorCode.INVALID_REQUEST))
        else:
            answers.append(_partition_with_offset(group_offsets, index, committed))
    return ResponseTopics(name=requested.name, topic_id=requested.topic_id, partitions=answers)


def _is_for_topic(committed: OffsetAndMetadata, topic_id: bytes) -> bool:
    """Whether an offset was committed for this topic, not for a deleted one of the same name."""
    return committed.topic_id == topic_id or ZERO_UUID in (committed.topic_id, topic_id)


def _partition_with_offset(
    group_offsets: _GroupOffsets, index: int, committed: OffsetAndMetadata
) -> ResponsePartition:
    answer = ResponsePartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=ErrorCode.NONE,
    )
    if group_offsets.has_partition_epochs:
        answer.incarnation_epoch = committed.incarnation_epoch
    return answer


def partition_without_offset(index: int, code: ErrorCode) -> ResponsePartition:
    """Return the answer for a partition without an offset, or with an error."""
    return ResponsePartition(
        partition_index=index,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
        error_code=code,
    )


def group_error(group: RequestGroup, code: ErrorCode, era: OffsetFetchEra) -> ResponseGroup:
    """Return the answer for a group with an error, in the form of the version."""
    topics = []
    if era.reports_group_error_per_partition:
        topics = [
            ResponseTopics(
                name=requested.name,
                topic_id=requested.topic_id,
                partitions=[
                    partition_without_offset(index, code) for index in requested.partition_indexes
                ],
            )
            for requested in group.topics or ()
        ]
    return ResponseGroup(group_id=group.group_id, error_code=code, topics=topics)


def refuse_offset_fetch(
    request: OffsetFetchRequest, code: ErrorCode, message: str | None
) -> OffsetFetchResponse:
    """Return an error for every group, without a message."""
    del message
    oldest_era = OFFSET_FETCH_ERAS.at(0)
    return OffsetFetchResponse(
        groups=[group_error(group, code, oldest_era) for group in request.groups]
    )


def lift_offset_fetch(request: OffsetFetchRequest, version: int) -> OffsetFetchRequest:
    """Return the request in the structure of the latest version."""
    lift = OFFSET_FETCH_ERAS.at(version).lift
    return request if lift is None else lift(request)


def lower_offset_fetch(response: OffsetFetchResponse, version: int) -> OffsetFetchResponse:
    """Return the response in the structure of this version."""
    lower = OFFSET_FETCH_ERAS.at(version).lower
    return response if lower is None else lower(response)


APIS = (
    Api(
        key=ApiKey.OFFSET_FETCH,
        versions=Versions(0, 10),
        handler=handle_offset_fetch,
        inline_bytes=0,
        refusal=refuse_offset_fetch,
        eras=OFFSET_FETCH_ERAS,
        lift=lift_offset_fetch,
        lower=lower_offset_fetch,
    ),
)
