"""The catalogue is complete: every API has a row, and every row matches its API's schema."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.join_group import JoinGroupResponse
from kafkalite.protocol._generated.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkalite.protocol._generated.messages.write_txn_markers import WriteTxnMarkersRequest
from kafkalite.protocol.acl_operations import Entity, Resource
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import (
    ROWS,
    AnsweringNode,
    ChangedState,
    Fields,
    Quota,
    Row,
    Rows,
    TopicPartition,
    endpoints,
    entities_in_request,
    entities_in_response,
    error_codes,
    keys_where,
    row,
    values_at,
)
from kafkalite.protocol.rows import depth_of_refusal
from kafkalite.protocol.schema import module_of
from kafkalite.protocol.spec import load_spec, snake_case

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.protocol.spec import FieldSpec, MessageSpec

_ENTITY_OF_SPEC_ENTITY = {
    "groupId": "group",
    "topicName": "topic",
    "transactionalId": "transactional_id",
    "brokerId": "broker",
    "producerId": "producer_id",
}
_ENTITY_OF_FIELD_NAME = {
    "group_id": "group",
    "member_id": "member",
    "group_instance_id": "instance",
    "instance_id": "instance",
    "topic_id": "topic_id",
}
_SECRET_NAMES = {"auth_bytes", "hmac", "salt", "salted_password"}


def spec_of(key: ApiKey, direction: str) -> MessageSpec:
    """Return the spec of an API's requests or responses."""
    return load_spec("apis", f"{snake_case(codec.api_name(key))}_{direction}")


def fields_by_path(spec: MessageSpec) -> dict[str, FieldSpec]:
    """Return every field of a message by its path, structs included."""

    def fields_below(fields: Sequence[FieldSpec], prefix: str) -> Iterator[tuple[str, FieldSpec]]:
        for field in fields:
            if field.versions.overlap(spec.versions) is None:
                continue
            path = f"{prefix}{field.attribute}"
            yield path, field
            struct = spec.structs.get(field.type)
            if struct is not None:
                yield from fields_below(struct.fields, f"{path}.")

    return dict(fields_below(spec.fields, ""))


def field_problems(fields: Fields, there: dict[str, FieldSpec]) -> Iterator[str]:
    """Yield places that a message does not have, and entities that have no place."""
    for name, places in fields._asdict().items():
        for place in places.split():
            path, _, condition = place.partition("?")
            condition_field = f"{path.rpartition('.')[0]}.{condition.partition('=')[0]}".lstrip(".")
            if path not in there or (condition and condition_field not in there):
                yield f"there is no {place} for {name}"
    for path, field in there.items():
        last = path.rpartition(".")[2]
        name = _ENTITY_OF_SPEC_ENTITY.get(field.entity or "") or _ENTITY_OF_FIELD_NAME.get(last, "")
        if field.type == "records":
            name = "records"
        if last in _SECRET_NAMES:
            name = "credentials"
        row_places = getattr(fields, name).split() if name else [path]
        if path not in {each.partition("?")[0] for each in row_places}:
            yield f"{path} is no {name} of the row"


def problems(key: ApiKey, entry: Row) -> Iterator[str]:
    """Yield the differences between a row and its API's schema."""
    answered = fields_by_path(spec_of(key, "response"))
    yield from field_problems(entry.request, fields_by_path(spec_of(key, "request")))
    yield from field_problems(entry.response, answered)
    for ending, places in (("error_code", entry.errors), ("error_message", entry.messages)):
        there = [path for path in answered if path.endswith(ending)]
        if places.split() != there:
            yield f"{ending}: {places.split()} instead of {there}"
    topics = entry.response.topic.split()
    yield from (f"{place} is listed" for place in entry.listed.split() if place not in topics)
    yield from (f"generates {place}" for place in entry.generates.values() if place not in answered)
    hosts = entry.endpoints.split()
    if not {*hosts, *(each.replace("host", "port") for each in hosts)} <= answered.keys():
        yield f"no endpoints at {hosts}"
    elif hosts:
        since = min(answered[each].versions.lowest for each in hosts)
        if since != entry.endpoints_since:
            yield f"endpoints since {since}"


_ANSWERED_IN_OTHER_ROWS = {
    ApiKey.ALTER_REPLICA_LOG_DIRS: "topics are requested by directory, and answered in one list",
    ApiKey.ALTER_CLIENT_QUOTAS: "the answer repeats a list of structs",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "users are requested in two lists, and answered once",
    ApiKey.DESCRIBE_LOG_DIRS: "directories are answered, which are not requested",
}
"""APIs with errors in lists whose elements are not answers to rows of the request."""


def row_problems(key: ApiKey, entry: Row) -> Iterator[str]:
    """Yield the differences between the lists of rows and the schema of an API."""
    requested = fields_by_path(spec_of(key, "request"))
    answered = fields_by_path(spec_of(key, "response"))
    rows = entry.rows
    if rows is None:
        in_lists = [
            place
            for place in entry.errors.split()
            if any(answered[each].is_array for each in owners_of(place))
        ]
        if in_lists and key not in _ANSWERED_IN_OTHER_ROWS:
            yield f"there are no rows for {in_lists}"
        return
    depths = {len(rows.requested.split(".")), len(rows.answered.split(".")), len(rows.copied)}
    if len(depths) > 1:
        yield f"lists of different depths: {rows}"
    for question, answer, copied in zip(
        owners_of(f"{rows.requested}."), owners_of(f"{rows.answered}."), rows.copied, strict=True
    ):
        if not (requested[question].is_array and answered[answer].is_array):
            yield f"{question} or {answer} is no list"
        for each in copied.split():
            name, mark, source = each.partition("=")
            place = f"{question}.{source if mark else name}".rstrip(".")
            if place not in requested or f"{answer}.{name}" not in answered:
                yield f"{each} is not in {question} and {answer}"
            elif requested[place].type != answered[f"{answer}.{name}"].type:
                yield f"{place} has another type than {answer}.{name}"
    yield from (f"there is no {place}" for place in entry.refused if place not in answered)


def owners_of(place: str) -> list[str]:
    """Return the places of the structs around a place, the outermost first."""
    steps = place.split(".")
    return [".".join(steps[:depth]) for depth in range(1, len(steps))]


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_the_rows_of_an_api_fit_its_schema(key: ApiKey) -> None:
    assert list(row_problems(key, row(key))) == []


def test_wrong_rows_are_detected() -> None:
    key = ApiKey.DELETE_RECORDS
    fitting = row(key)
    assert list(row_problems(key, fitting._replace(rows=None))) == [
        "there are no rows for ['topics.partitions.error_code']"
    ]
    wrong = Rows("topics.partitions", "topics.partitions", ("topic", "partition_index=offset"))
    assert list(row_problems(key, fitting._replace(rows=wrong, refused={"offset": 1}))) == [
        "topic is not in topics and topics",
        "topics.partitions.offset has another type than topics.partitions.partition_index",
        "there is no offset",
    ]


def test_every_api_has_a_row_and_no_other() -> None:
    assert ROWS.keys() == set(ApiKey) == set(codec.api_keys())


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_a_row_fits_the_schema_of_its_api(key: ApiKey) -> None:
    assert list(problems(key, row(key))) == []


def test_wrong_row_is_detected() -> None:
    fitting = row(ApiKey.OFFSET_COMMIT)
    wrong = fitting._replace(request=fitting.request._replace(group="group", topic="topics.topic"))
    assert list(problems(ApiKey.OFFSET_COMMIT, wrong)) == [
        "there is no group for group",
        "there is no topics.topic for topic",
        "group_id is no group of the row",
        "topics.name is no topic of the row",
    ]
    assert list(problems(ApiKey.OFFSET_COMMIT, fitting._replace(listed="topics"))) == [
        "topics is listed"
    ]
    assert list(problems(ApiKey.OFFSET_COMMIT, fitting._replace(errors="error_code"))) == [
        "error_code: ['error_code'] instead of ['topics.partitions.error_code']"
    ]
    assert list(problems(ApiKey.OFFSET_COMMIT, fitting._replace(endpoints="brokers.host"))) == [
        "no endpoints at ['brokers.host']"
    ]


def filled_message(spec: MessageSpec) -> Any:  # noqa: ANN401 - a message of any API
    """Return a message with one row in every list, and a value in every field."""
    module = import_module(module_of(spec))
    values = {"string": "x", "bool": True, "uuid": bytes(15) + b"\1", "bytes": b"x", "records": b""}

    def of(message: Any, fields: Sequence[FieldSpec]) -> Any:  # noqa: ANN401
        for field in fields:
            if field.versions.overlap(spec.versions) is None:
                continue
            struct = spec.structs.get(field.type)
            value = values.get(field.type, 1)
            if struct is not None:
                value = of(getattr(whole, field.type)(), struct.fields)
            setattr(message, field.attribute, [value] if field.is_array else value)
        return message

    whole = getattr(module, spec.name)
    return of(whole(), spec.fields)


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_entities_at_the_paths_of_a_row_are_read_from_messages(key: ApiKey) -> None:
    for direction, fields, read in (
        ("request", row(key).request, entities_in_request),
        ("response", row(key).response, entities_in_response),
    ):
        spec = spec_of(key, direction)
        message = filled_message(spec)
        for entity in Entity:
            places = [each.partition("?") for each in getattr(fields, entity.value, "").split()]
            found = list(read(key, entity, message))
            unconditional = [place for place, mark, _ in places if not mark]
            assert len(found) >= len(unconditional)
            if entity is Entity.PARTITION:
                assert all(each.topic for each in found)
                assert {each.partition for each in found} <= {1}
    codes = list(error_codes(key, filled_message(spec_of(key, "response"))))
    assert codes == [1] * len(row(key).errors.split())


def test_entities_of_a_commit() -> None:
    topics = [
        OffsetCommitRequest.OffsetCommitRequestTopic(
            name=name,
            topic_id=topic_id,
            partitions=[
                OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=index)
                for index in (3, 1)
            ],
        )
        for name, topic_id in (("orders", bytes(16)), ("", b"i" * 16))
    ]
    request = OffsetCommitRequest(group_id="g", member_id="", topics=topics)
    key = ApiKey.OFFSET_COMMIT
    assert list(entities_in_request(key, Entity.GROUP, request)) == ["g"]
    assert list(entities_in_request(key, Entity.MEMBER, request)) == []
    assert list(entities_in_request(key, Entity.TOPIC, request)) == ["orders"]
    assert list(entities_in_request(key, Entity.TOPIC_ID, request)) == [b"i" * 16]
    assert list(entities_in_request(key, Entity.PARTITION, request)) == [
        TopicPartition("orders", 3),
        TopicPartition("orders", 1),
        TopicPartition(b"i" * 16, 3),
        TopicPartition(b"i" * 16, 1),
    ]
    partition = OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=1, error_code=16)
    response = OffsetCommitResponse(
        topics=[OffsetCommitResponse.OffsetCommitResponseTopic(name="t", partitions=[partition])]
    )
    assert list(error_codes(key, response)) == [16]
    assert list(entities_in_response(key, Entity.PARTITION, response)) == [TopicPartition("t", 1)]


def test_condition_distinguishes_groups_and_transactional_ids() -> None:
    key = ApiKey.FIND_COORDINATOR
    group = FindCoordinatorRequest(key="g", key_type=0)
    several = FindCoordinatorRequest(coordinator_keys=["a", "b"], key_type=1)
    assert list(entities_in_request(key, Entity.GROUP, group)) == ["g"]
    assert list(entities_in_request(key, Entity.TRANSACTIONAL_ID, group)) == []
    assert list(entities_in_request(key, Entity.TRANSACTIONAL_ID, several)) == ["a", "b"]
    resources = [
        IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=kind, resource_name=name)
        for kind, name in ((2, "orders"), (4, "1"), (32, "g"))
    ]
    request = IncrementalAlterConfigsRequest(resources=resources)
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    assert list(entities_in_request(key, Entity.TOPIC, request)) == ["orders"]
    assert list(entities_in_request(key, Entity.GROUP, request)) == ["g"]
    assert list(entities_in_request(key, Entity.CONFIG_RESOURCE, request)) == ["orders", "1", "g"]


def test_endpoints_have_node_ids() -> None:
    assert endpoints(row(ApiKey.DESCRIBE_CLUSTER)) == (("brokers", "broker_id"),)
    assert endpoints(row(ApiKey.FIND_COORDINATOR)) == (
        ("", "node_id"),
        ("coordinators", "node_id"),
    )
    assert endpoints(row(ApiKey.HEARTBEAT)) == ()


def test_entities_are_read_from_the_fields_of_all_versions() -> None:
    key = ApiKey.ADD_PARTITIONS_TO_TXN
    topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="t", partitions=[0, 2])]
    old = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x", v3_and_below_topics=list(topics)
    )
    transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id="x", topics=topics
    )
    new = AddPartitionsToTxnRequest(transactions=[transaction])
    for request in (old, new):
        assert list(entities_in_request(key, Entity.TRANSACTIONAL_ID, request)) == ["x"]
        assert list(entities_in_request(key, Entity.PARTITION, request)) == [("t", 0), ("t", 2)]


def test_empty_names_are_left_out() -> None:
    assert list(entities_in_request(ApiKey.FETCH, Entity.BROKER, FetchRequest())) == []
    assert list(entities_in_request(ApiKey.FETCH, Entity.BROKER, FetchRequest(replica_id=2))) == [2]
    assert list(entities_in_response(ApiKey.JOIN_GROUP, Entity.MEMBER, JoinGroupResponse())) == []
    assert list(values_at(WriteTxnMarkersRequest(), "markers.topics.name")) == []


def test_rows_are_selected_by_a_condition() -> None:
    assert keys_where(lambda entry: entry.changes is ChangedState.RECORDS) == {
        ApiKey.PRODUCE,
        ApiKey.DELETE_RECORDS,
    }
    assert ApiKey.LIST_GROUPS in keys_where(lambda entry: entry.node is AnsweringNode.EACH)
    assert row(ApiKey.END_TXN).is_write
    assert not row(ApiKey.FETCH).is_write
    with pytest.raises(KeyError):
        row(4)


def test_apis_with_a_quota_of_mutations_refuse_rows_since_a_version() -> None:
    counted = {
        key: entry for key, entry in ROWS.items() if entry.quota is Quota.CONTROLLER_MUTATION
    }
    assert counted == {
        key: entry for key, entry in ROWS.items() if entry.quota_refusals_since is not None
    }
    for key, entry in counted.items():
        versions = codec.api_versions(key)
        refusing = [
            version for version in versions.within(versions) if entry.refuses_beyond_quota(version)
        ]
        assert refusing == list(range(entry.quota_refusals_since or 0, versions.highest + 1))
        assert 0 < len(refusing) <= versions.highest - versions.lowest
        assert depth_of_refusal(key) == 0


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_resources_of_permissions_are_in_requests_or_responses(key: ApiKey) -> None:
    """A permission on topics, for example, requires topics in requests or responses."""
    entry = row(key)
    names = {
        Resource.TOPIC: ("topic", "topic_id"),
        Resource.GROUP: ("group",),
        Resource.TRANSACTIONAL_ID: ("transactional_id",),
    }
    for permission in (each for alternatives in entry.access for each in alternatives):
        required = names.get(permission.resource, ())
        places = [
            getattr(fields, name) for fields in (entry.request, entry.response) for name in required
        ]
        assert not required or any(places) or permission.when.name == "IDEMPOTENT_ONLY"


def test_every_attribute_of_fields_is_used() -> None:
    used = {
        name
        for entry in ROWS.values()
        for fields in (entry.request, entry.response)
        for name, places in fields._asdict().items()
        if places
    }
    assert used == set(Fields._fields)


def test_catalogue_imports_no_heavy_modules() -> None:
    code = (
        "import sys, kafkalite.protocol; before = set(sys.modules);"
        "import kafkalite.protocol.catalogue;"
        "print(*sorted(n for n in set(sys.modules) - before if n.startswith('kafkalite')))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert loaded.stdout.split() == [
        "kafkalite.ports",
        "kafkalite.ports.int_enums",
        "kafkalite.ports.named_tuples",
        "kafkalite.protocol.acl_operations",
        "kafkalite.protocol.api_keys",
        "kafkalite.protocol.catalogue",
    ]
