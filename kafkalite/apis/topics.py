"""CreateTopics, DeleteTopics and CreatePartitions: the life of topics.

Each topic of a request succeeds or fails alone. Kafka answers in the order of a hash table; here
the order is the request's.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkalite.apis.contract import Api, Eras
from kafkalite.apis.topic_configs import created_configs
from kafkalite.metadata.creation import NewTopic, TopicCreation
from kafkalite.metadata.growth import Growth
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from kafkalite.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kafkalite.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.apis.context import RequestContext, Services
    from kafkalite.metadata.image import MetadataImage


def _duplicate() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


def _metadata_topic_is_ours() -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        "Creation of internal topic __cluster_metadata is prohibited.",
    )


def _repeated(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def handle_create_topics(
    context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Make topics, or with `validate_only` say what would become of them."""
    services = context.services
    repeated = _repeated(topic.name for topic in request.topics)
    outcome: dict[str, TopicCreation] = {}
    wanted = []
    for topic in request.topics:
        outcome[topic.name] = TopicCreation(name=topic.name, error=_duplicate())
        if topic.name in repeated:
            continue
        if topic.name == METADATA_TOPIC:
            outcome[topic.name] = TopicCreation(name=topic.name, error=_metadata_topic_is_ours())
            continue
        wanted.append(_new_topic(topic))
    for creation in services.metadata.create_topics(wanted, validate_only=request.validate_only):
        outcome[creation.name] = creation
    return CreateTopicsResponse(
        topics=[_creation_result(creation, services) for creation in outcome.values()]
    )


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
    creation: TopicCreation, services: Services
) -> CreateTopicsResponse.CreatableTopicResult:
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
        configs=created_configs(creation.configs, services),
    )


def refuse_create_topics(
    request: CreateTopicsRequest, code: ErrorCode, message: str | None
) -> CreateTopicsResponse:
    """Say one error for every topic of a request."""
    return CreateTopicsResponse(
        topics=[
            CreateTopicsResponse.CreatableTopicResult(
                name=topic.name, error_code=code, error_message=message
            )
            for topic in request.topics
        ]
    )


DELETION_ERAS = Eras(
    # The error that says so came later.
    (0, ErrorCode.INVALID_REQUEST),
    (3, ErrorCode.TOPIC_DELETION_DISABLED),
)


def lift_delete_topics(request: DeleteTopicsRequest, version: int) -> DeleteTopicsRequest:
    """Return a request by names as one by states, which can name a topic by its id as well."""
    del version  # the names are filled in the old shape alone
    if not request.topic_names:
        return request
    return DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.DeleteTopicState(name=name) for name in request.topic_names],
        timeout_ms=request.timeout_ms,
    )


def handle_delete_topics(
    context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Remove topics, named or by id; internal ones too, as Kafka does."""
    services = context.services
    if not services.config.bool("delete.topic.enable"):
        code: ErrorCode = context.era
        message = "Topic deletion is disabled." if code is ErrorCode.INVALID_REQUEST else None
        raise KafkaError(code, message or code.message)
    image = services.metadata.image
    repeated_names = _repeated(state.name for state in request.topics if state.name is not None)
    given_ids = Counter(state.topic_id for state in request.topics if state.name is None)
    repeated_ids = frozenset(
        topic_id for topic_id, count in given_ids.items() if count > 1 and topic_id != ZERO_UUID
    )
    answers: dict[tuple[str | None, bytes], KafkaError | None] = {}
    named_twice: set[tuple[str, bytes]] = set()
    for state in request.topics:
        key = (state.name, state.topic_id)
        try:
            _check_state(state, repeated_names, repeated_ids)
            name, topic_id = _resolve(state, image)
        except KafkaError as error:
            answers[key] = error
            continue
        if state.name is not None and topic_id in given_ids:
            named_twice.add((name, topic_id))
        answers[name, topic_id] = None
    for both in named_twice:
        answers[both] = KafkaError(
            ErrorCode.INVALID_REQUEST,
            "The provided topic name maps to an ID that was already supplied.",
        )
    doomed = [topic_id for (_, topic_id), error in answers.items() if error is None]
    services.metadata.delete_topics(doomed)
    return DeleteTopicsResponse(
        responses=[
            DeleteTopicsResponse.DeletableTopicResult(
                name=name,
                topic_id=topic_id,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message or error.code.message,
            )
            for (name, topic_id), error in answers.items()
        ]
    )


def _check_state(
    state: DeleteTopicsRequest.DeleteTopicState,
    repeated_names: frozenset[str],
    repeated_ids: frozenset[bytes],
) -> None:
    if state.name is None and state.topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if state.name is not None and state.topic_id != ZERO_UUID:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    if state.name in repeated_names:
        raise _duplicate()
    if state.topic_id in repeated_ids:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")


def _resolve(
    state: DeleteTopicsRequest.DeleteTopicState, image: MetadataImage
) -> tuple[str, bytes]:
    if state.name is not None:
        topic = image.topics.get(state.name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    else:
        topic = image.topics_by_id.get(state.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic.name, topic.topic_id


def refuse_delete_topics(
    request: DeleteTopicsRequest, code: ErrorCode, message: str | None
) -> DeleteTopicsResponse:
    """Say one error for every topic of a request."""
    return DeleteTopicsResponse(
        responses=[
            DeleteTopicsResponse.DeletableTopicResult(
                name=state.name,
                topic_id=state.topic_id,
                error_code=code,
                error_message=message,
            )
            for state in request.topics
        ]
    )


def handle_create_partitions(
    context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Add partitions to topics, or with `validate_only` say whether that can be."""
    repeated = _repeated(topic.name for topic in request.topics)
    outcome: dict[str, KafkaError | None] = dict.fromkeys(
        (topic.name for topic in request.topics), _duplicate()
    )
    growths = [
        Growth(
            topic=topic.name,
            partitions=topic.count,
            assignments=None
            if topic.assignments is None
            else tuple(tuple(assignment.broker_ids) for assignment in topic.assignments),
        )
        for topic in request.topics
        if topic.name not in repeated
    ]
    errors = context.services.metadata.create_partitions(
        growths, validate_only=request.validate_only
    )
    outcome.update(zip((growth.topic for growth in growths), errors, strict=True))
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsResponse.CreatePartitionsTopicResult(
                name=name,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for name, error in outcome.items()
        ]
    )


def refuse_create_partitions(
    request: CreatePartitionsRequest, code: ErrorCode, message: str | None
) -> CreatePartitionsResponse:
    """Say one error for every topic of a request."""
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsResponse.CreatePartitionsTopicResult(
                name=topic.name, error_code=code, error_message=message
            )
            for topic in request.topics
        ]
    )


APIS = (
    Api(
        key=CreateTopicsRequest.API_KEY,
        versions=Versions(2, 7),
        handler=handle_create_topics,
        refuse=refuse_create_topics,
    ),
    Api(
        key=DeleteTopicsRequest.API_KEY,
        versions=Versions(1, 6),
        handler=handle_delete_topics,
        refuse=refuse_delete_topics,
        eras=DELETION_ERAS,
        lift=lift_delete_topics,
    ),
    Api(
        key=CreatePartitionsRequest.API_KEY,
        versions=Versions(0, 3),
        handler=handle_create_partitions,
        refuse=refuse_create_partitions,
    ),
)
