"""Each row of each profile is enforced, and each refusal names its row and its source."""

# ruff: noqa: ANN401 - requests and responses of any API
from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.apis.profile_step import RULE, ProfileStep, reason_not_served
from kafkalite.apis.releases import api_finder, served_rows
from kafkalite.apis.table import TABLE, find_api
from kafkalite.config import profiles
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import value_to_text
from kafkalite.config.profiles import PROFILES, Kind, Profile, Row
from kafkalite.config.releases import emulated_release
from kafkalite.gateway.call import Call, ConnectionContext
from kafkalite.gateway.exchanges import Details, Exchange, Observers
from kafkalite.gateway.steps import DisconnectError
from kafkalite.metadata.image import ResourceType
from kafkalite.protocol._generated.messages.alter_configs import AlterConfigsRequest
from kafkalite.protocol._generated.messages.create_partitions import CreatePartitionsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import api_name
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.versions import Versions
from tests.cluster.metadata import MetadataCluster
from tests.unit.exchanges import report_no_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.cluster.node import Node
    from kafkalite.gateway.refusals import Refusal

KEYS = {api_name(key): key for key in TABLE}
NODES = (1, 2, 3)
BATCH_BYTES = 61


class Service:
    """The handlers of a service inside its step, with a cluster of three nodes."""

    def __init__(self, name: str) -> None:
        self.release = emulated_release(name)
        self.step = ProfileStep(self.release)
        self.cluster = MetadataCluster(nodes=NODES, as_version=name)
        self.refusals: list[Refusal] = []
        self.group_count = 0
        self.is_between_nodes = False

    def ask(self, api_name: str, request: Any) -> Any:
        """Return the response of the real handler, or raise the error of the step."""
        api = find_api(KEYS[api_name])
        assert api is not None
        return self.step.wrap(api, api.versions.highest, api.handler)(self.call(), request)

    def call(self, node: Node | None = None) -> Call:
        """Return the context of a request to `node`."""
        node = node or self.cluster.node()
        context = ConnectionContext(
            node=node,
            listener="PLAINTEXT",
            client_host="/10.0.0.1",
            sender=node if self.is_between_nodes else None,
        )
        exchange = Exchange(Observers((), report_no_error), context, b"", 0)
        exchange.details = Details(0)
        exchange.details.refusals = self.refusals
        context.exchange = exchange
        return Call(context)

    def pass_to_stub(self, api_name: str, request: Any, node: Node | None = None) -> Any:
        """Return "served" if the step lets a request pass."""
        api = find_api(KEYS[api_name])
        assert api is not None

        def serve(call: Call, request: Any) -> str:
            del call, request
            return "served"

        return self.step.wrap(api, api.versions.highest, serve)(self.call(node), request)

    def create(
        self,
        name: str = "orders",
        partitions: int = 1,
        factor: int = -1,
        configs: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the result of CreateTopics for one topic."""
        request = CreateTopicsRequest(topics=[new_topic(name, partitions, factor, configs)])
        (result,) = self.ask("CreateTopics", request).topics
        return result

    def alter(
        self, name: str, value: str, kind: int = ResourceType.TOPIC, of: str = "orders"
    ) -> Any:
        """Return the result of IncrementalAlterConfigs for one setting."""
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=kind,
            resource_name=of,
            configs=[
                IncrementalAlterConfigsRequest.AlterableConfig(
                    name=name, config_operation=0, value=value
                )
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (result,) = self.ask("IncrementalAlterConfigs", request).responses
        return result

    def value_of(self, setting: str) -> str | None:
        """Return the value that topic `orders` has for a setting."""
        return self.cluster.image.topic_config("orders").get(setting)


def new_topic(
    name: str, partitions: int = 1, factor: int = -1, configs: Mapping[str, str] | None = None
) -> CreateTopicsRequest.CreatableTopic:
    """Return a topic of CreateTopics."""
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            for key, value in (configs or {}).items()
        ],
    )


def rows_of(*kinds: Kind) -> pytest.MarkDecorator:
    """Return the parameters of a test for each row of some kinds."""
    rows = [(p, row) for p in PROFILES.values() for row in p.rows if row.kind in kinds]
    return pytest.mark.parametrize(
        ("profile", "row"), rows, ids=[f"{profile.name}: {row}" for profile, row in rows]
    )


def check_refusal(row: Row, profile: Profile, error: KafkaError) -> None:
    """Check that an error is that of a row, and says so."""
    assert error.code is ErrorCode[row.error]
    assert error.facts is not None
    assert error.facts["rule"] == RULE
    assert error.facts["profile"] == profile.name
    assert error.facts["row"] == str(row)
    assert row.source.url in str(error.facts["source"])
    assert "refused" in (error.explanation or "")
    assert str(row) in (error.explanation or "")


@rows_of(Kind.API)
def test_the_advertised_versions_are_those_of_the_row(profile: Profile, row: Row) -> None:
    release = emulated_release(profile.name)
    served = {
        each.name: each
        for each in served_rows(release).values()
        if each.name not in release.internal_apis
    }
    if row.subject == profiles.OTHERS:
        listed = {each.subject for each in profile.of_kind(Kind.API)}
        assert set(served) <= listed
    elif row.value == profiles.NOT_SERVED:
        assert row.subject not in served
    else:
        implemented = TABLE[KEYS[row.subject]]
        lowest = implemented.lowest if implemented.oldest is None else implemented.oldest
        overlap = Versions.parse(row.value).overlap(Versions(lowest, implemented.highest))
        each = served[row.subject]
        assert Versions(each.lowest, each.highest) == overlap
        api = api_finder(release)(KEYS[row.subject])
        assert api is not None
        assert api.versions == overlap


@rows_of(Kind.DEFAULT)
def test_the_default_is_that_of_the_row_unless_set(profile: Profile, row: Row) -> None:
    config = BrokerConfig.from_text(as_version=profile.name, node_count=3)
    assert value_to_text(config.get(row.subject)) == row.value


def value_for(setting: str) -> str:
    """Return a valid value of a topic setting."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "gzip",
        "max.message.bytes": "2000000",
        "message.downconversion.enable": "false",
        "message.format.version": "3.0",
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": "1",
    }.get(setting, "60000000")


@rows_of(Kind.SETTING)
def test_a_topic_setting_is_as_the_row_says(profile: Profile, row: Row) -> None:
    service = Service(profile.name)
    name = "preallocate" if row.subject == profiles.OTHERS else row.subject
    if row.subject == profiles.OTHERS and profile.name == "redpanda":
        name = "some.setting"
    is_bound = row.value.startswith((profiles.MAXIMUM, profiles.MINIMUM))
    if is_bound:
        check_bound(service, profile, row)
        return
    created = service.create(configs={name: value_for(name)})
    is_created = row.value != profiles.FIXED
    assert (created.error_code == ErrorCode.NONE) is is_created
    if not is_created:
        check_refusal(row, profile, service.refusals.pop().error)
        service.create()
    is_stored = row.value in {profiles.EDITABLE, profiles.AT_CREATION}
    assert service.value_of(name) == (value_for(name) if is_stored else None)
    value = "delete" if name == "cleanup.policy" else value_for(name)
    altered = service.alter(name, value)
    if row.value in {profiles.EDITABLE, profiles.IGNORED}:
        assert altered.error_code == ErrorCode.NONE
        assert not service.refusals
        assert service.value_of(name) == (value if row.value == profiles.EDITABLE else None)
    else:
        assert altered.error_code == ErrorCode[row.error]
        check_refusal(row._replace(message=""), profile, service.refusals.pop().error)


def check_bound(service: Service, profile: Profile, row: Row) -> None:
    """Check a maximum or minimum at creation and at a change."""
    is_maximum = row.value.startswith(profiles.MAXIMUM)
    bound = int(row.value.removeprefix(profiles.MAXIMUM).removeprefix(profiles.MINIMUM))
    beyond = bound + 1 if is_maximum else bound - 1
    refused = service.create(configs={row.subject: f"{beyond}"})
    assert refused.error_code == ErrorCode[row.error]
    assert f"{bound}" in refused.error_message
    check_refusal(row, profile, service.refusals.pop().error)
    assert service.create(configs={row.subject: f"{bound}"}).error_code == ErrorCode.NONE
    assert service.alter(row.subject, f"{beyond}").error_code == ErrorCode[row.error]
    assert service.alter(row.subject, f"{bound}").error_code == ErrorCode.NONE
    if is_maximum:  # -1 means no limit
        assert service.alter(row.subject, "-1").error_code == ErrorCode[row.error]


@rows_of(Kind.LIMIT)
def test_a_limit_is_enforced(profile: Profile, row: Row) -> None:
    service = Service(profile.name)
    match row.subject:
        case profiles.REPLICATION_FACTOR:
            assert service.create(factor=3).error_code == ErrorCode.NONE
            assert service.create("payments").error_code == ErrorCode.NONE
            refused = service.create("others", factor=2)
            assert refused.error_code == ErrorCode[row.error]
            assert refused.error_message == row.message
        case profiles.PARTITIONS_PER_TOPIC:
            maximum = int(row.value)
            assert service.create(partitions=maximum).error_code == ErrorCode.NONE
            assert service.create("b", maximum + 1).error_code == ErrorCode[row.error]
            assert add_partitions(service, "orders", maximum + 1) == ErrorCode[row.error]
        case profiles.PARTITIONS:
            maximum = int(row.value)
            assert service.create(partitions=maximum - 1).error_code == ErrorCode.NONE
            assert service.create("b", 2).error_code == ErrorCode[row.error]
            assert add_partitions(service, "orders", maximum) == ErrorCode.NONE
            assert service.create("b", 1).error_code == ErrorCode[row.error]
        case profiles.TOPICS:
            topics = [new_topic(f"t{index}") for index in range(int(row.value) + 1)]
            results = service.ask("CreateTopics", CreateTopicsRequest(topics=topics)).topics
            codes = [result.error_code for result in results]
            assert codes == [ErrorCode.NONE] * int(row.value) + [ErrorCode[row.error]]
        case profiles.GROUPS:
            check_group_count(service, profile, row)
            return
        case profiles.GROUP_ID_CHARACTERS:
            long, allowed = "g" * (int(row.value) + 1), "g" * int(row.value)
            assert service.pass_to_stub("JoinGroup", JoinGroupRequest(group_id=allowed)) == "served"
            with pytest.raises(KafkaError) as refused_group:
                service.pass_to_stub("JoinGroup", JoinGroupRequest(group_id=long))
            check_refusal(row, profile, refused_group.value)
            return
        case _:
            check_produce(service, profile, row)
            return
    refusal = service.refusals.pop()
    assert refusal.kind is Entity.TOPIC
    check_refusal(row, profile, refusal.error)


@pytest.mark.parametrize("name", ["eventhubs", "msk-serverless"])
def test_metadata_creates_no_topics_beyond_a_limit(name: str) -> None:
    service = Service(name)
    row = PROFILES[name].limit(profiles.TOPICS) or PROFILES[name].limit(profiles.PARTITIONS)
    assert row is not None
    within, beyond = (
        MetadataRequest(
            topics=[
                MetadataRequest.MetadataRequestTopic(name=f"t{index}") for index in range(count)
            ],
            allow_auto_topic_creation=True,
        )
        for count in (2, int(row.value) + 1)
    )
    passed: list[bool] = []

    def serve(call: Call, request: Any) -> None:
        del call
        passed.append(request.allow_auto_topic_creation)

    api = find_api(ApiKey.METADATA)
    assert api is not None
    handler = service.step.wrap(api, 12, serve)
    handler(service.call(), within)
    handler(service.call(), beyond)
    assert passed == [True, False]
    check_refusal(row, PROFILES[name], service.refusals.pop().error)


def test_every_api_that_creates_groups_is_limited() -> None:
    service = Service("eventhubs")
    row = PROFILES["eventhubs"].limit(profiles.GROUP_ID_CHARACTERS)
    assert row is not None
    with pytest.raises(KafkaError):
        service.pass_to_stub(
            "TxnOffsetCommit", TxnOffsetCommitRequest(group_id="g" * (int(row.value) + 1))
        )


def add_partitions(service: Service, topic: str, count: int) -> int:
    """Return the error code of CreatePartitions."""
    new = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=count, assignments=None)
    (result,) = service.ask(
        "CreatePartitions", CreatePartitionsRequest(topics=[new], timeout_ms=1_000)
    ).results
    return cast("int", result.error_code)


def check_group_count(service: Service, profile: Profile, row: Row) -> None:
    """Check the limit of groups with a table of groups that is full."""
    existing = dict.fromkeys((f"g{index}" for index in range(int(row.value))), object())
    shard = SimpleNamespace(
        machine=SimpleNamespace(directory=SimpleNamespace(groups=existing), group=existing.get)
    )
    groups = SimpleNamespace(locate=lambda *_: shard, shards=lambda: [shard])
    node = cast("Any", SimpleNamespace(id=1, groups=groups))
    assert service.pass_to_stub("JoinGroup", JoinGroupRequest(group_id="g0"), node) == "served"
    with pytest.raises(KafkaError) as refused:
        service.pass_to_stub("JoinGroup", JoinGroupRequest(group_id="new"), node)
    check_refusal(row, profile, refused.value)
    existing.popitem()
    assert service.pass_to_stub("JoinGroup", JoinGroupRequest(group_id="new"), node) == "served"


def produce(sizes: Sequence[int], codec: int = 0) -> ProduceRequest:
    """Return a Produce request with one batch of each size."""
    return ProduceRequest(
        acks=1,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name="orders",
                partition_data=[
                    ProduceRequest.PartitionProduceData(
                        index=index, records=bytes(22) + bytes([codec]) + bytes(size - 23)
                    )
                    for index, size in enumerate(sizes)
                ],
            )
        ],
    )


def check_produce(service: Service, profile: Profile, row: Row) -> None:
    """Check the limits for Produce."""
    assert service.pass_to_stub("Produce", produce([BATCH_BYTES])) == "served"
    if row.subject == profiles.COMPRESSION_TYPES:
        for codec in range(1, 5):
            with pytest.raises(KafkaError) as refused:
                service.pass_to_stub("Produce", produce([BATCH_BYTES], codec))
            check_refusal(row, profile, refused.value)
            assert refused.value.message == row.message
        return
    assert row.subject == profiles.PRODUCED_BYTES
    half = int(row.value) // 2
    assert service.pass_to_stub("Produce", produce([half, half])) == "served"
    with pytest.raises(DisconnectError):
        service.pass_to_stub("Produce", produce([half, half + 1]))
    (refusal,) = service.refusals
    assert refusal.entity_id == "10.0.0.1"
    assert refusal.error.facts is not None
    assert refusal.error.facts["row"] == str(row)


@rows_of(Kind.REFUSED)
def test_a_refused_call_gets_the_error_of_the_row(profile: Profile, row: Row) -> None:
    service = Service(profile.name)
    api, _, resource = row.subject.partition(" ")
    if not resource:
        with pytest.raises(KafkaError) as refused:
            service.pass_to_stub(api, None)
        check_refusal(row, profile, refused.value)
        return
    if api == "IncrementalAlterConfigs":
        result = service.alter("log.retention.ms", "60000", ResourceType.BROKER, "1")
    elif api == "AlterConfigs":
        altered = AlterConfigsRequest.AlterConfigsResource(
            resource_type=ResourceType.BROKER, resource_name="1"
        )
        (result,) = service.ask(api, AlterConfigsRequest(resources=[altered])).responses
    else:
        described = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=ResourceType.BROKER, resource_name="1"
        )
        (result,) = service.ask(api, DescribeConfigsRequest(resources=[described])).results
    assert result.error_code == ErrorCode[row.error]
    assert result.error_message == (row.message or ErrorCode[row.error].message)
    refusal = service.refusals.pop()
    assert (refusal.kind, refusal.entity_id) == (Entity.CLIENT, "10.0.0.1")
    check_refusal(row, profile, refusal.error)


def test_other_topics_of_a_request_are_created() -> None:
    service = Service("confluent-cloud")
    topics = [new_topic("one", factor=1), new_topic("three", factor=3), new_topic("two", factor=2)]
    results = service.ask("CreateTopics", CreateTopicsRequest(topics=topics)).topics
    assert {result.name: result.error_code for result in results} == {
        "one": ErrorCode.POLICY_VIOLATION,
        "three": ErrorCode.NONE,
        "two": ErrorCode.POLICY_VIOLATION,
    }
    assert [refusal.entity_id for refusal in service.refusals] == ["one", "two"]
    assert set(service.cluster.image.topics) == {"three"}


def test_calls_between_nodes_are_not_restricted() -> None:
    service = Service("msk-serverless")
    service.is_between_nodes = True
    assert service.create(partitions=121).error_code == ErrorCode.NONE
    assert service.pass_to_stub("WriteTxnMarkers", None) == "served"
    assert service.pass_to_stub("CreateAcls", None) == "served"


def test_a_client_that_calls_an_api_of_nodes_is_disconnected() -> None:
    service = Service("redpanda")
    with pytest.raises(DisconnectError, match=r"WriteTxnMarkers .* row \"API \*: not"):
        service.pass_to_stub("WriteTxnMarkers", None)
    assert ApiKey.WRITE_TXN_MARKERS not in {
        key
        for key, row in served_rows(service.release).items()
        if row.name not in service.release.internal_apis
    }


def test_the_reason_why_an_api_is_not_served_is_its_row() -> None:
    reasons = {
        key: reason_not_served(PROFILES["eventhubs"], key)
        for key in (ApiKey.END_TXN, ApiKey.FETCH, ApiKey.LIST_GROUPS, -1)
    }
    end = "of the profile eventhubs, see https://"
    assert reasons[ApiKey.END_TXN].startswith(f'row "API EndTxn: not served" {end}')
    assert reasons[ApiKey.FETCH].startswith(f'row "API Fetch: 4-6" {end}')
    assert reasons[ApiKey.LIST_GROUPS] == reasons[-1] == ""
    assert "API *: not served" in reason_not_served(PROFILES["redpanda"], -1)


@pytest.mark.parametrize("name", PROFILES)
def test_apis_without_rows_are_not_wrapped(name: str) -> None:
    service = Service(name)
    api = find_api(ApiKey.FETCH)
    assert api is not None
    assert service.step.wrap(api, 6, api.handler) is api.handler
