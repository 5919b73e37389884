"""Leaders and followers on a node that only clients reach, and that returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.elect_leaders import ElectLeadersRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import Batch, batch
from tests.conformance.scenario_nodes import NO_LEADER
from tests.conformance.setup import EARLIEST, list_offsets, produce, producer_id

if TYPE_CHECKING:
    from tests.conformance.scenario_nodes import ScenarioNodes

_OTHER, _ISOLATED, _THIRD = 1, 2, 3
_SHORT_MS = 500
_LONGER_THAN_SESSION_MS = 6_000
_LONG_MS = 120_000


def leader_is_isolated(nodes: ScenarioNodes) -> None:
    """Isolate the leader of several topics until other nodes lead, and connect it again."""
    replicas = {
        "led": (_ISOLATED, _OTHER, _THIRD),
        "pair": (_ISOLATED, _THIRD),
        "strict": (_ISOLATED, _THIRD),
        "alone": (_ISOLATED,),
        "followed": (_OTHER, _ISOLATED),
    }
    for topic, node_ids in replicas.items():
        nodes.create(topic, node_ids, min_insync_replicas="2" if topic == "strict" else "1")
        nodes.produce(node_ids[0], topic, b"first")
        nodes.settle(topic, node_ids[0], node_ids)
    isolated = nodes.node(_ISOLATED)

    nodes.isolate(_ISOLATED)
    nodes.begin("before the election")
    for topic, timeout_ms in (("led", _LONGER_THAN_SESSION_MS), ("pair", _LONG_MS)):
        request = produce(nodes.full_name(topic), batch(b"waits"), timeout_ms=timeout_ms)
        isolated.send(request, 10, on=topic)
        nodes.wait_for_end(_ISOLATED, topic, 0, 2)
    nodes.produce(_ISOLATED, "led", b"lost", acks=1)
    nodes.produce(_ISOLATED, "alone", b"second")
    nodes.settle("led", _OTHER, (_OTHER, _THIRD))
    nodes.settle("pair", _THIRD, (_THIRD,))
    nodes.settle("strict", _THIRD, (_THIRD,), elr=(_ISOLATED,))
    nodes.settle("alone", NO_LEADER, ())
    nodes.settle("followed", _OTHER, (_OTHER,))

    nodes.begin("after the election")
    isolated.receive("led", title="Produce to led")
    nodes.describe_cluster(_ISOLATED)
    end_offsets = {"led": 4, "pair": 3, "strict": 2, "alone": 3, "followed": 1}
    for topic, end_offset in end_offsets.items():
        nodes.produce(_ISOLATED, topic, b"lost", acks=1)
        nodes.observe(topic, 0, end_offset, _ISOLATED)
    for topic in ("led", "alone"):
        nodes.produce(_ISOLATED, topic, b"not replicated", timeout_ms=_SHORT_MS)
    for topic in ("led", "pair"):
        nodes.produce(_OTHER if topic == "led" else _THIRD, topic, b"second")

    nodes.connect(_ISOLATED)
    nodes.begin("after the return")
    isolated.receive("pair", title="Produce to pair")
    leaders = {
        "led": (_OTHER, 2),
        "pair": (_THIRD, 2),
        "strict": (_THIRD, 1),
        "alone": (_ISOLATED, 4),
        "followed": (_OTHER, 1),
    }
    for topic, (leader, end_offset) in leaders.items():
        epoch = nodes.settle(topic, leader, replicas[topic], elr=())
        nodes.observe(topic, epoch, end_offset)


def idempotent_producer_stays_at_a_former_leader(nodes: ScenarioNodes) -> None:
    """Send sequences to a former leader that does not know of its successor."""
    nodes.create("led", (_ISOLATED, _OTHER, _THIRD))
    nodes.begin("before the isolation")
    name, isolated = nodes.full_name("led"), nodes.node(_ISOLATED)
    number, epoch = producer_id(isolated)

    def send(node_id: int, sequence: int, acks: int = 1) -> None:
        records = Batch(producer_id=number, producer_epoch=epoch, base_sequence=sequence).encode()
        nodes.node(node_id).ask(produce(name, records, acks=acks), 10)

    send(_ISOLATED, 0, acks=-1)
    nodes.settle("led", _ISOLATED, (_ISOLATED, _OTHER, _THIRD))
    nodes.isolate(_ISOLATED)
    nodes.settle("led", _OTHER, (_OTHER, _THIRD))
    nodes.begin("after the election")
    for sequence in (0, 1, 1, 3, 2):
        send(_ISOLATED, sequence)
    for sequence in (0, 2, 1):
        send(_OTHER, sequence)

    nodes.connect(_ISOLATED)
    nodes.begin("after the return")
    nodes.settle("led", _OTHER, (_ISOLATED, _OTHER, _THIRD))
    for sequence in (1, 2):
        send(_OTHER, sequence)


def requests_for_the_controller_wait(nodes: ScenarioNodes) -> None:
    """Send requests for the controller to an isolated node, and connect it again."""
    nodes.create("led", (_ISOLATED, _OTHER))
    nodes.isolate(_ISOLATED)
    nodes.begin("before the return")
    isolated = nodes.node(_ISOLATED)
    topic = CreateTopicsRequest.CreatableTopic(
        name=nodes.full_name("created"), num_partitions=1, replication_factor=1
    )
    isolated.send(CreateTopicsRequest(topics=[topic], timeout_ms=_LONG_MS), 7, on="create")
    election = ElectLeadersRequest.TopicPartitions(topic=nodes.full_name("led"), partitions=[0])
    elect = ElectLeadersRequest(topic_partitions=[election], timeout_ms=_LONG_MS)
    isolated.send(elect, 2, on="elect")
    nodes.settle("led", _OTHER, (_OTHER,))
    row = MetadataRequest.MetadataRequestTopic(name=nodes.full_name("created"))
    nodes.node(_OTHER).ask(MetadataRequest(topics=[row], allow_auto_topic_creation=False), 12)

    nodes.connect(_ISOLATED)
    nodes.begin("after the return")
    isolated.receive("create", title="CreateTopics")
    answer = isolated.connection("elect").receive()
    assert answer.error_code == ErrorCode.NONE, answer


def records_are_deleted_at_a_former_leader(nodes: ScenarioNodes) -> None:
    """Send DeleteRecords to a former leader that does not know of its successor."""
    topics = {"led": (_ISOLATED, _OTHER, _THIRD), "alone": (_ISOLATED,)}
    for topic, node_ids in topics.items():
        nodes.create(topic, node_ids)
        for value in (b"first", b"second"):
            nodes.produce(_ISOLATED, topic, value)
        nodes.settle(topic, _ISOLATED, node_ids)
    nodes.isolate(_ISOLATED)
    nodes.settle("led", _OTHER, (_OTHER, _THIRD))
    nodes.settle("alone", NO_LEADER, ())
    nodes.begin("after the election")
    for topic in topics:
        for offset in (1, 3, -1):
            nodes.node(_ISOLATED).ask(delete_records(nodes.full_name(topic), offset), 2)
        for node_id in (_ISOLATED, _OTHER):
            request = list_offsets(nodes.full_name(topic), timestamp=EARLIEST)
            nodes.node(node_id).ask(request, 7)
            for offset in range(4):
                nodes.fetch(nodes.fetch_request(topic, offset), node_id)


def delete_records(name: str, offset: int) -> DeleteRecordsRequest:
    """Ask to delete records, and to wait for a short time until all replicas have done it."""
    rows = DeleteRecordsRequest
    partition = rows.DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = rows.DeleteRecordsTopic(name=name, partitions=[partition])
    return rows(topics=[topic], timeout_ms=_SHORT_MS)


SCENARIOS = (
    leader_is_isolated,
    idempotent_producer_stays_at_a_former_leader,
    requests_for_the_controller_wait,
    records_are_deleted_at_a_former_leader,
)
