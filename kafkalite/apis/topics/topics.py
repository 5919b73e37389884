"""CreateTopics, DeleteTopics and CreatePartitions.

Each topic of a request succeeds or fails on its own. Kafka answers in the order of a hash table;
here the order is that of the request.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING

from kafkalite.apis.configs.describe import layers_of
from kafkalite.apis.timeouts import check_timeout
from kafkalite.config.describe import describe_topic
from kafkalite.gateway.api import MAX_ELEMENTS_AT_ONCE, MAX_ELEMENTS_WITH_PARTITIONS, Api, Eras
from kafkalite.metadata.creation import MAX_PARTITIONS_PER_REQUEST, NewTopic, TopicCreation
from kafkalite.metadata.partition_creation import NewPartitions
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.ports.turns import (
    chunks,
    clear_in_steps,
    in_steps,
    items_in_steps,
    iterate_with_pauses,
    pause,
    pausing,
)
from kafkalite.protocol._generated.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from kafkalite.protocol._generated.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkalite.protocol._generated.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.call import Call
    from kafkalite.metadata.creation import Charge
    from kafkalite.metadata.image import MetadataImage


# Shared instances: a request may name a million topics that do not exist.
_UNKNOWN_NAME = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_UNKNOWN_ID = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)

MAX_TOPICS_PER_DECISION = 200
"""Maximum number of topics that one decision of the controller creates or deletes."""


def _duplicate_error() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def _metadata_topic_error() -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        ErrorText.METADATA_TOPIC_IS_INTERNAL.template,
    )


def _duplicates(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def handle_create_topics(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create topics; with `validate_only`, only check whether that is possible.

    With the pace of a real Kafka, brokers know the topics later than the client has its response.
    """
    node = call.node
    duplicates = _duplicates(topic.name for topic in request.topics)
    results: dict[str, TopicCreation] = {}
    new_topics = []
    for topic in request.topics:
        results[topic.name] = TopicCreation(name=topic.name, error=_duplicate_error())
        if topic.name in duplicates:
            continue
        if topic.name == METADATA_TOPIC:
            results[topic.name] = TopicCreation(name=topic.name, error=_metadata_topic_error())
            continue
        new_topics.append(_new_topic(topic))
    if new_topics:
        check_timeout(request.timeout_ms)
    pace = node.cluster.pace
    delayed = (
        nullcontext()
        if pace is None or request.validate_only
        else node.cluster.node_control.metadata_delayed(pace)
    )
    with delayed:
        creations = _create(call, new_topics, validate_only=request.validate_only)
    results.update((creation.name, creation) for creation in creations)
    return CreateTopicsResponse(
        topics=[_creation_result(creation, node) for creation in in_steps(results.values())]
    )


def _create(call: Call, new_topics: list[NewTopic], *, validate_only: bool) -> list[TopicCreation]:
    """Create topics in several decisions, if there are many.

    Raises KafkaError POLICY_VIOLATION, before any is created, if there are too many partitions.
    """
    metadata = call.node.cluster.metadata
    if len(new_topics) > MAX_TOPICS_PER_DECISION:
        record_count = 0
        for part in chunks(new_topics, MAX_TOPICS_PER_DECISION):
            for creation in metadata.create_topics(part, validate_only=True):
                if creation.error is None:
                    record_count += 1 + creation.partitions + len(creation.configs)
            if record_count > MAX_PARTITIONS_PER_REQUEST:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, ErrorText.TOO_MANY_PARTITIONS.template)
    creations: list[TopicCreation] = []
    for part in chunks(new_topics, MAX_TOPICS_PER_DECISION):
        creations += metadata.create_topics(
            part, validate_only=validate_only, charge=_charge_of(call), may_pause=True
        )
    return creations


def _charge_of(call: Call) -> Charge | None:
    """Return the function that counts partitions against the quota of the client, if it has one."""
    return None if call.mutation_quota is None else call.mutation_quota.charge


def _new_topic(topic: CreateTopicsRequest.CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(
            (assignment.partition_index, tuple(assignment.broker_ids))
            for assignment in topic.assignments
        ),
        configs={config.name: config.value for config in topic.configs},
    )


def _creation_result(
    creation: TopicCreation, node: Node
) -> CreateTopicsResponse.CreatableTopicResult:
    pause()
    if creation.error is not None:
        return CreateTopicsResponse.CreatableTopicResult(
            name=creation.name,
            error_code=creation.error.code,
            error_message=creation.error.message,
        )
    return CreateTopicsResponse.CreatableTopicResult(
        name=creation.name,
        topic_id=creation.topic_id,
        error_message=None,
        num_partitions=creation.partitions,
        replication_factor=creation.replication_factor,
        configs=created_configs(creation.configs, node),
    )


DELETION_ERAS = Eras(
    # TOPIC_DELETION_DISABLED was added in v3.
    (0, ErrorCode.INVALID_REQUEST),
    (3, ErrorCode.TOPIC_DELETION_DISABLED),
)


def lift_delete_topics(request: DeleteTopicsRequest, version: int) -> DeleteTopicsRequest:
    """Convert topic names to `DeleteTopicState` objects, which have a name or an id."""
    del version  # only old versions fill the names
    if not request.topic_names:
        return request
    return DeleteTopicsRequest(
        topics=pausing(
            [DeleteTopicsRequest.DeleteTopicState(name=name) for name in request.topic_names]
        ),
        timeout_ms=request.timeout_ms,
    )


def handle_delete_topics(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete topics by name or id; internal topics too, as Kafka does."""
    _check_deletion_is_enabled(call)
    metadata = call.node.cluster.metadata
    image = metadata.image
    duplicate_names = _duplicates(state.name for state in request.topics if state.name is not None)
    id_counts = Counter(state.topic_id for state in request.topics if state.name is None)
    duplicate_ids = frozenset(
        topic_id for topic_id, count in id_counts.items() if count > 1 and topic_id != ZERO_UUID
    )
    answers: dict[tuple[str | None, bytes], KafkaError | None] = {}
    given_by_name_and_id: set[tuple[str, bytes]] = set()
    for state in request.topics:
        key = (state.name, state.topic_id)
        error = _error_of_state(state, duplicate_names, duplicate_ids)
        if error is not None:
            answers[key] = error
            continue
        check_timeout(request.timeout_ms)
        try:
            name, topic_id = _resolve(state, image)
        except KafkaError as unknown:
            answers[key] = unknown.without_traceback()
            continue
        if state.name is not None and topic_id in id_counts:
            given_by_name_and_id.add((name, topic_id))
        answers[name, topic_id] = None
    for key in in_steps(given_by_name_and_id):
        answers[key] = KafkaError(
            ErrorCode.INVALID_REQUEST,
            "The provided topic name maps to an ID that was already supplied.",
        )
    to_delete = [key for key, error in items_in_steps(answers) if error is None]
    for batch in chunks(to_delete, MAX_TOPICS_PER_DECISION):
        # Another request may have deleted them meanwhile.
        results = metadata.delete_topics([topic_id for _, topic_id in batch], _charge_of(call))
        for key in batch:
            answers[key] = results[key[1]]
    response = DeleteTopicsResponse(
        responses=[
            _deletion_result(*key, error) for key, error in iterate_with_pauses(answers.items())
        ]
    )
    clear_in_steps(answers)
    return response


def _check_deletion_is_enabled(call: Call) -> None:
    if not call.node.cluster.controller_config.bool("delete.topic.enable"):
        code: ErrorCode = call.era
        message = "Topic deletion is disabled." if code is ErrorCode.INVALID_REQUEST else None
        raise KafkaError(code, message or code.message)


def _deletion_result(
    name: str | None, topic_id: bytes, error: KafkaError | None
) -> DeleteTopicsResponse.DeletableTopicResult:
    return DeleteTopicsResponse.DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message or error.code.message,
    )


def _error_of_state(
    state: DeleteTopicsRequest.DeleteTopicState,
    duplicate_names: frozenset[str],
    duplicate_ids: frozenset[bytes],
) -> KafkaError | None:
    """Return the error of an element that names no topic, or that is repeated."""
    if state.name is None and state.topic_id == ZERO_UUID:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if state.name is not None and state.topic_id != ZERO_UUID:
        return KafkaError(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    if state.name in duplicate_names:
        return _duplicate_error()
    if state.topic_id in duplicate_ids:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
    return None


def _resolve(
    state: DeleteTopicsRequest.DeleteTopicState, image: MetadataImage
) -> tuple[str, bytes]:
    if state.name is not None:
        topic = image.topics.get(state.name)
        if topic is None:
            raise _UNKNOWN_NAME
    else:
        topic = image.topics_by_id.get(state.topic_id)
        if topic is None:
            raise _UNKNOWN_ID
    return topic.name, topic.topic_id


def handle_create_partitions(
    call: Call, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Add partitions to topics; with `validate_only`, only check whether that is possible."""
    duplicates = _duplicates(topic.name for topic in request.topics)
    results: dict[str, KafkaError | None] = dict.fromkeys(
        (topic.name for topic in request.topics), _duplicate_error()
    )
    new_partitions = [
        NewPartitions(
            topic=topic.name,
            partitions=topic.count,
            assignments=None
            if topic.assignments is None
            else tuple(tuple(assignment.broker_ids) for assignment in topic.assignments),
        )
        for topic in request.topics
        if topic.name not in duplicates
    ]
    if new_partitions:
        check_timeout(request.timeout_ms)
    errors = call.node.cluster.metadata.create_partitions(
        new_partitions,
        validate_only=request.validate_only,
        charge=_charge_of(call),
        may_pause=True,
    )
    results.update(zip((new.topic for new in new_partitions), errors, strict=True))
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsResponse.CreatePartitionsTopicResult(
                name=name,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for name, error in items_in_steps(results)
        ]
    )


APIS = (
    Api(
        key=CreateTopicsRequest.API_KEY,
        other_pausing_lists=frozenset(("assignments", "configs")),
        max_elements=MAX_ELEMENTS_WITH_PARTITIONS,
        versions=Versions(2, 7),
        handler=handle_create_topics,
        inline_bytes=0,
    ),
    Api(
        key=DeleteTopicsRequest.API_KEY,
        other_pausing_lists=frozenset(("topic_names",)),
        versions=Versions(1, 6),
        handler=handle_delete_topics,
        inline_bytes=0,
        eras=DELETION_ERAS,
        lift=lift_delete_topics,
    ),
    Api(
        key=CreatePartitionsRequest.API_KEY,
        other_pausing_lists=frozenset(("assignments",)),
        max_elements=MAX_ELEMENTS_AT_ONCE,
        versions=Versions(0, 3),
        handler=handle_create_partitions,
        inline_bytes=0,
    ),
)


def created_configs(
    topic_configs: Mapping[str, str], node: Node
) -> list[CreateTopicsResponse.CreatableTopicConfigs]:
    """Return every setting of a new topic at the controller, ordered by name."""
    image = node.cluster.metadata.image
    chosen = node.config.controller_id
    layers = layers_of(node, image.controller_id if chosen is None else chosen, image)
    return [
        CreateTopicsResponse.CreatableTopicConfigs(
            name=entry.name,
            # The value as written in the request, not the parsed value.
            value=topic_configs.get(entry.name, entry.value),
            read_only=entry.is_read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in describe_topic(topic_configs, layers, node.config)
    ]
