"""Throttling: quotas of clients, measured on the clock of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.authorization.step import AuthorizationStep
from kafkalite.apis.table import find_api
from kafkalite.gateway.call import Call
from kafkalite.gateway.gateway import Gateway
from kafkalite.gateway.steps import StepOrder
from kafkalite.gateway.throttling import Throttling, new_mutation_meters
from kafkalite.metadata.client_quotas import QuotaAlteration
from kafkalite.metadata.image import MetadataDelta, MetadataImage
from kafkalite.protocol._generated.messages.create_partitions import CreatePartitionsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol._generated.messages.write_txn_markers import WriteTxnMarkersRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.security.authorizer import AuthorizerSettings
from kafkalite.wire.session import PendingAnswer
from tests.cluster.cluster import TestCluster
from tests.cluster.responses import PendingResponse, frame_of
from tests.unit.data_plane import batch_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.gateway.api import Api
    from kafkalite.gateway.steps import Handler
    from kafkalite.protocol.message import Message

CLIENT = (("client-id", "client"),)
PRODUCE, PRODUCE_BY_ID, FETCH, CREATE, DELETE, ADD = 9, 13, 12, 7, 6, 3


def produce_request(
    value: bytes, acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name="t",
                partition_data=[
                    ProduceRequest.PartitionProduceData(index=0, records=batch_of(value))
                ],
            )
        ],
    )


class ThrottledCluster(TestCluster):
    """A cluster whose clients can have quotas; topic `t` has one partition."""

    port: int | None = None

    def __init__(self, path: Path) -> None:
        super().__init__(path, config={"message.max.bytes": "10000000"})
        self._mutations = new_mutation_meters(self.cluster.config)
        self._throttle()
        self.create("t")
        self.mutes_ms: list[int] = []
        self.contexts[1].connection = self

    def _throttle(self) -> None:
        gateway, throttling = self.gateway, Throttling(self._mutations)

        def on_image(image: MetadataImage, delta: MetadataDelta) -> None:
            throttling.on_image(image, delta)
            gateway.set_step(StepOrder.THROTTLE, throttling if throttling.has_quotas else None)

        on_image(self.cluster.metadata.image, MetadataDelta())
        self.cluster.metadata.subscribe(on_image)

    def use_another_gateway(self) -> None:
        """Send the next requests to another gateway, as clients of the controller do."""
        self.gateway = Gateway(find_api, self.gateway._report_bug)
        self._throttle()

    def mute(self, duration_ms: int) -> None:
        self.mutes_ms.append(duration_ms)

    def ask(self, request: Message, version: int, node: int = 1) -> Any:  # noqa: ANN401 - any class
        """Do the same as `TestCluster.ask`; a throttled response has arrived at once."""
        response = super().ask(request, version, node)
        return response.response if isinstance(response, PendingResponse) else response

    def set_quota(self, key: str, value: float | None) -> None:
        alteration = QuotaAlteration(CLIENT, ((key, value),))
        (error,) = self.cluster.metadata.alter_client_quotas([alteration]).values()
        assert error is None

    def produce(self, value: bytes = b"v") -> Any:  # noqa: ANN401 - any class
        return self.ask(produce_request(value), PRODUCE)

    def fetch(self, session_id: int = 0, session_epoch: int = -1) -> Any:  # noqa: ANN401 - any class
        request = FetchRequest(
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=[
                FetchRequest.FetchTopic(
                    topic="t",
                    partitions=[
                        FetchRequest.FetchPartition(
                            partition=0, fetch_offset=0, partition_max_bytes=1 << 20
                        )
                    ],
                )
            ],
        )
        return self.ask(request, FETCH)

    def describe(self) -> Any:  # noqa: ANN401 - any class
        return self.ask(DescribeClusterRequest(), 1)

    def create_topics(self, *names: str, partitions: int = 1, version: int = CREATE) -> Any:  # noqa: ANN401 - any class
        topics = [
            CreateTopicsRequest.CreatableTopic(
                name=name, num_partitions=partitions, replication_factor=1
            )
            for name in names
        ]
        return self.ask(CreateTopicsRequest(topics=topics), version)


class SlowStep:
    """A step in which each request takes a second."""

    def __init__(self, wire: TestCluster) -> None:
        self._clock = wire.clock

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        del api, version

        def handle(call: Call, request: object) -> object:
            self._clock.advance(1000)
            return handler(call, request)

        return handle


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[ThrottledCluster]:
    wire = ThrottledCluster(tmp_path)
    yield wire
    wire.end()


@pytest.fixture
def refusing_cluster(wire: ThrottledCluster) -> ThrottledCluster:
    """Return a cluster without ACLs whose requests take a second before they are authorized."""
    wire.gateway.install(SlowStep(wire), StepOrder.AUTHORIZE)
    wire.gateway.install(AuthorizationStep(AuthorizerSettings()), StepOrder.AUTHORIZE)
    return wire


def test_without_quotas_no_step_is_installed(wire: ThrottledCluster) -> None:
    assert not wire.gateway.steps
    wire.set_quota("producer_byte_rate", 1000.0)
    assert len(wire.gateway.steps) == 1
    wire.set_quota("producer_byte_rate", None)
    assert not wire.gateway.steps


def test_a_quota_of_an_address_installs_no_step(wire: ThrottledCluster) -> None:
    alteration = QuotaAlteration((("ip", None),), (("connection_creation_rate", 1.0),))
    wire.cluster.metadata.alter_client_quotas([alteration])
    assert not wire.gateway.steps


def test_the_throttle_time_of_one_heartbeat_is_in_no_other(wire: ThrottledCluster) -> None:
    """All heartbeats of classic groups that are in order have one response object."""
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range")]
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    wire.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    joining = TestCluster.ask(wire, join, 3)
    wire.clock.advance(3000)
    joined = joining.response
    generation, member_id = joined.generation_id, joined.member_id
    sync = SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id)
    assert wire.ask(sync, 3).error_code == 0
    wire.set_quota("request_percentage", 1.0)
    slow = SlowStep(wire)
    wire.gateway.install(slow, StepOrder.AUTHORIZE)
    heartbeat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
    assert wire.ask(heartbeat, 4).throttle_time_ms == 1000
    wire.gateway.remove(slow)
    wire.set_quota("request_percentage", None)
    assert wire.ask(heartbeat, 4).throttle_time_ms == 0


def test_a_producer_is_answered_at_once_and_muted(wire: ThrottledCluster) -> None:
    wire.set_quota("producer_byte_rate", 100.0)
    assert wire.produce(b"x" * 500).throttle_time_ms == 0
    response = wire.produce(b"x" * 1000)
    assert response.responses[0].partition_responses[0].base_offset == 1
    throttle_ms = response.throttle_time_ms
    # Two requests of about 600 and 1,100 bytes are 170 per second for 10 seconds.
    assert 7000 < throttle_ms < 9000
    assert wire.mutes_ms == [throttle_ms]
    wire.clock.advance(throttle_ms)
    assert wire.describe().throttle_time_ms == 0


def test_a_producer_without_acknowledgement_is_muted(
    wire: ThrottledCluster,
) -> None:
    wire.set_quota("producer_byte_rate", 100.0)
    frame = bytearray(frame_of(produce_request(b"x" * 2000, acks=0), PRODUCE))
    out: list[bytes | memoryview] = []
    pending = wire.gateway.serve_in_worker(wire.contexts[1], frame, 0, len(frame), out)
    assert isinstance(pending, PendingAnswer)
    assert pending.encode(pending.waiting.value, out) == 0
    assert out == []
    assert len(wire.mutes_ms) == 1


def test_a_throttled_fetch_has_no_records(wire: ThrottledCluster) -> None:
    for _ in range(4):
        wire.produce(b"x" * 1000)
    wire.set_quota("consumer_byte_rate", 200.0)
    first = wire.fetch()
    assert first.throttle_time_ms == 0
    assert first.responses[0].partitions[0].records
    second = wire.fetch()
    assert second.throttle_time_ms > 0
    assert second.responses == []
    assert second.session_id == 0
    # The records that were not sent do not count.
    wire.clock.advance(second.throttle_time_ms)
    assert wire.fetch().throttle_time_ms < second.throttle_time_ms


def test_a_fetch_is_limited_to_what_the_quota_allows(wire: ThrottledCluster) -> None:
    for _ in range(40):
        wire.produce(b"x" * 100)
    wire.set_quota("consumer_byte_rate", 100.0)
    records = wire.fetch().responses[0].partitions[0].records
    assert len(records) <= 1000


def test_mutations_beyond_the_quota_are_refused(wire: ThrottledCluster) -> None:
    wire.set_quota("controller_mutation_rate", 1.0)
    # The burst of a new client is that of 11 windows of a second.
    response = wire.create_topics("a", "b", "c", partitions=6)
    exceeded = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert [topic.error_code for topic in response.topics] == [0, 0, exceeded]
    assert response.topics[2].error_message == exceeded.message
    assert response.throttle_time_ms == 1000
    wire.clock.advance(1000)
    assert [topic.error_code for topic in wire.create_topics("c").topics] == [0]


def test_topics_beyond_the_quota_are_not_created_automatically(wire: ThrottledCluster) -> None:
    wire.set_quota("controller_mutation_rate", 1.0)
    names = [f"named-{number}" for number in range(40)]
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=True,
    )
    answer = wire.ask(request, 12)
    assert answer.throttle_time_ms == 0
    created = [name for name in names if name in wire.cluster.metadata.image.topics]
    assert created == names[: len(created)]
    assert 0 < len(created) < len(names)


def test_old_versions_are_only_throttled(wire: ThrottledCluster) -> None:
    wire.set_quota("controller_mutation_rate", 1.0)
    response = wire.create_topics("a", "b", "c", partitions=6, version=5)
    assert [topic.error_code for topic in response.topics] == [0, 0, 0]
    assert response.throttle_time_ms == 7000


def test_new_partitions_and_deletions_count(wire: ThrottledCluster) -> None:
    wire.set_quota("controller_mutation_rate", 1.0)
    more = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=14, assignments=None)
    added = wire.ask(CreatePartitionsRequest(topics=[more], timeout_ms=1_000), ADD)
    assert [topic.error_code for topic in added.results] == [0]
    assert added.throttle_time_ms == 0
    deleted = wire.ask(
        DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.DeleteTopicState(name="t")], timeout_ms=1_000
        ),
        DELETE,
    )
    assert deleted.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert deleted.throttle_time_ms == 2000
    assert "t" in wire.cluster.metadata.image.topics


def test_all_gateways_share_the_quota_of_mutations(wire: ThrottledCluster) -> None:
    wire.set_quota("controller_mutation_rate", 1.0)
    assert wire.create_topics("a", partitions=12).throttle_time_ms == 0
    wire.use_another_gateway()
    refused = wire.create_topics("b")
    assert [topic.error_code for topic in refused.topics] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert refused.throttle_time_ms == 1000


def test_each_gateway_measures_request_time(wire: ThrottledCluster) -> None:
    wire.set_quota("request_percentage", 1.0)
    wire.gateway.install(SlowStep(wire), StepOrder.AUTHORIZE)
    assert wire.describe().throttle_time_ms > 0
    wire.use_another_gateway()
    assert wire.describe().throttle_time_ms == 0


def test_the_quota_of_request_time_uses_the_clock_of_the_broker(wire: ThrottledCluster) -> None:
    wire.set_quota("request_percentage", 1.0)
    # The clock stands still, so no request takes any time.
    for _ in range(100):
        assert wire.describe().throttle_time_ms == 0


def test_the_history_has_the_quota(wire: ThrottledCluster) -> None:
    wire.set_quota("producer_byte_rate", 100.0)
    wire.produce(b"x" * 2000)
    (entry,) = [
        each
        for each in wire.cluster.history.about("t", of=Entity.TOPIC)
        if each.kind == "throttled"
    ]
    assert "producer_byte_rate" in entry.text
    wire.describe()
    throttled = [each for each in wire.cluster.history.latest() if each.client is not None]
    assert [(each.kind, each.text) for each in throttled] == [("throttled", entry.text)]


def test_the_history_names_a_topic_that_the_request_names_by_its_id(wire: ThrottledCluster) -> None:
    wire.set_quota("producer_byte_rate", 100.0)
    by_id = produce_request(b"x" * 2000)
    by_id.topic_data[0].topic_id = wire.cluster.metadata.image.topics["t"].topic_id
    wire.ask(by_id, PRODUCE_BY_ID)
    kinds = [each.kind for each in wire.cluster.history.about("t", of=Entity.TOPIC)]
    assert kinds == ["throttled"]


def test_the_throttle_time_fits_into_its_field(wire: ThrottledCluster) -> None:
    wire.set_quota("producer_byte_rate", 1.0)
    wire.set_quota("request_percentage", 5e-324)
    response = wire.produce(b"x" * 3_500_000)
    assert response.responses[0].partition_responses[0].error_code == 0
    assert response.throttle_time_ms == 2**31 - 1


def test_a_refused_request_is_throttled(wire: ThrottledCluster) -> None:
    wire.set_quota("controller_mutation_rate", 1.0)
    # The request as a whole is refused after its mutations were counted.
    response = wire.create_topics("a", "b", partitions=6_000, version=5)
    assert {topic.error_code for topic in response.topics} == {ErrorCode.POLICY_VIOLATION}
    assert response.throttle_time_ms > 0
    assert wire.mutes_ms == [response.throttle_time_ms]


def test_a_throttled_fetch_changes_no_session(wire: ThrottledCluster) -> None:
    for _ in range(4):
        wire.produce(b"x" * 1000)
    wire.set_quota("consumer_byte_rate", 1.0)
    sessions = wire.cluster.nodes[1].partitions.fetch_sessions(1)
    response = wire.fetch(session_epoch=0)
    assert response.throttle_time_ms > 0
    assert (response.session_id, response.responses) == (0, [])
    assert len(sessions) == 0
    wire.clock.advance(response.throttle_time_ms)
    wire.set_quota("consumer_byte_rate", None)
    created = wire.fetch(session_epoch=0)
    assert created.session_id > 0
    wire.set_quota("consumer_byte_rate", 1.0)
    wire.produce(b"y" * 1000)
    throttled = wire.fetch(session_id=created.session_id, session_epoch=1)
    assert (throttled.session_id, throttled.responses) == (created.session_id, [])
    wire.clock.advance(throttled.throttle_time_ms)
    wire.set_quota("consumer_byte_rate", None)
    later = wire.fetch(session_id=created.session_id, session_epoch=2)
    assert later.responses[0].partitions[0].high_watermark == 5


def test_a_handler_that_fails_leaves_no_quota_at_the_call(wire: ThrottledCluster) -> None:
    wire.set_quota("controller_mutation_rate", 1.0)
    context, step = wire.contexts[1], wire.gateway.steps[0]
    context.client_id = "client"
    call = Call(context)
    seen: list[object] = []

    def fail(call: Call, _: object) -> None:
        seen.append(call.mutation_quota)
        raise OSError("a bug")

    api = find_api(CreateTopicsRequest.API_KEY)
    assert api is not None
    with pytest.raises(OSError, match="a bug"):
        step.wrap(api, CREATE, fail)(call, CreateTopicsRequest())
    assert seen != [None]
    assert call.mutation_quota is None


def test_a_request_without_permission_is_throttled(refusing_cluster: ThrottledCluster) -> None:
    refusing_cluster.set_quota("request_percentage", 1.0)
    response = refusing_cluster.ask(HeartbeatRequest(group_id="g", member_id="m"), 4)
    assert response.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    # 100 % of a second, within 11 windows, is above 1 %; the maximum is one window.
    assert response.throttle_time_ms == 1000
    assert refusing_cluster.mutes_ms == [1000]
    reasons = [each.kind for each in refusing_cluster.cluster.history.about("g")]
    assert sorted(reasons) == ["refused", "throttled"]


def test_a_request_that_is_refused_in_part_is_throttled(refusing_cluster: ThrottledCluster) -> None:
    refusing_cluster.set_quota("request_percentage", 1.0)
    response = refusing_cluster.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 6)
    assert response.coordinators[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert response.throttle_time_ms == 1000


def test_a_request_of_a_node_that_comes_from_a_client_is_throttled(
    refusing_cluster: ThrottledCluster,
) -> None:
    refusing_cluster.set_quota("request_percentage", 1.0)
    refusing_cluster.ask(WriteTxnMarkersRequest(markers=[]), 1)
    assert refusing_cluster.mutes_ms == [1000]


def test_a_request_of_nodes_is_not_throttled(wire: ThrottledCluster) -> None:
    wire.gateway.install(SlowStep(wire), StepOrder.AUTHORIZE)
    wire.set_quota("request_percentage", 1.0)
    wire.ask(WriteTxnMarkersRequest(markers=[]), 1)
    assert wire.mutes_ms == []


def test_the_time_of_a_produce_request_without_acknowledgement_does_not_count(
    wire: ThrottledCluster,
) -> None:
    wire.gateway.install(SlowStep(wire), StepOrder.AUTHORIZE)
    wire.set_quota("request_percentage", 1.0)
    frame = bytearray(frame_of(produce_request(b"x", acks=0), PRODUCE))
    wire.gateway.serve_in_worker(wire.contexts[1], frame, 0, len(frame), [])
    assert wire.mutes_ms == []
    wire.produce()
    assert wire.mutes_ms == [1000]


def test_refused_topics_count_as_produced(refusing_cluster: ThrottledCluster) -> None:
    refusing_cluster.set_quota("producer_byte_rate", 1.0)
    response = refusing_cluster.produce(b"x" * 100)
    partition = response.responses[0].partition_responses[0]
    assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert response.throttle_time_ms > 0


def test_a_refused_transactional_id_does_not_count_as_produced(
    refusing_cluster: ThrottledCluster,
) -> None:
    refusing_cluster.set_quota("producer_byte_rate", 1.0)
    request = produce_request(b"x" * 100, transactional_id="t")
    transactional = batch_of(b"x" * 100, attributes=0x10)
    request.topic_data[0].partition_data[0].records = transactional
    response = refusing_cluster.ask(request, PRODUCE)
    partition = response.responses[0].partition_responses[0]
    assert partition.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert response.throttle_time_ms == 0
