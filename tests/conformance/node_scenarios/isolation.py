"""Leaders and followers on a node that only clients reach, and that returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.elect_leaders import ElectLeadersRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import Batch, batch
from tests.conformance.node_world import NO_LEADER
from tests.conformance.setup import EARLIEST, list_offsets, produce, producer_id

if TYPE_CHECKING:
    from tests.conformance.node_world import NodeWorlds

_OTHER, _ISOLATED, _THIRD = 1, 2, 3
_SHORT_MS = 500
_LONGER_THAN_SESSION_MS = 6_000
_LONG_MS = 120_000


def leader_is_isolated(worlds: NodeWorlds) -> None:
    """Isolate the leader of several topics until other nodes lead, and connect it again."""
    replicas = {
        "led": (_ISOLATED, _OTHER, _THIRD),
        "pair": (_ISOLATED, _THIRD),
        "strict": (_ISOLATED, _THIRD),
        "alone": (_ISOLATED,),
        "followed": (_OTHER, _ISOLATED),
    }
    for topic, node_ids in replicas.items():
        worlds.create(topic, node_ids, min_insync_replicas="2" if topic == "strict" else "1")
        worlds.produce(node_ids[0], topic, b"first")
        worlds.settle(topic, node_ids[0], node_ids)
    isolated = worlds.node(_ISOLATED)

    worlds.isolate(_ISOLATED)
    worlds.begin("before the election")
    for topic, timeout_ms in (("led", _LONGER_THAN_SESSION_MS), ("pair", _LONG_MS)):
        request = produce(worlds.full_name(topic), batch(b"waits"), timeout_ms=timeout_ms)
        isolated.send(request, 10, on=topic)
        worlds.wait_for_end(_ISOLATED, topic, 0, 2)
    worlds.produce(_ISOLATED, "led", b"lost", acks=1)
    worlds.produce(_ISOLATED, "alone", b"second")
    worlds.settle("led", _OTHER, (_OTHER, _THIRD))
    worlds.settle("pair", _THIRD, (_THIRD,))
    worlds.settle("strict", _THIRD, (_THIRD,), elr=(_ISOLATED,))
    worlds.settle("alone", NO_LEADER, ())
    worlds.settle("followed", _OTHER, (_OTHER,))

    worlds.begin("after the election")
    isolated.receive("led", title="Produce to led")
    worlds.describe_cluster(_ISOLATED)
    end_offsets = {"led": 4, "pair": 3, "strict": 2, "alone": 3, "followed": 1}
    for topic, end_offset in end_offsets.items():
        worlds.produce(_ISOLATED, topic, b"lost", acks=1)
        worlds.observe(topic, 0, end_offset, _ISOLATED)
    for topic in ("led", "alone"):
        worlds.produce(_ISOLATED, topic, b"not replicated", timeout_ms=_SHORT_MS)
    for topic in ("led", "pair"):
        worlds.produce(_OTHER if topic == "led" else _THIRD, topic, b"second")

    worlds.connect(_ISOLATED)
    worlds.begin("after the return")
    isolated.receive("pair", title="Produce to pair")
    leaders = {
        "led": (_OTHER, 2),
        "pair": (_THIRD, 2),
        "strict": (_THIRD, 1),
        "alone": (_ISOLATED, 4),
        "followed": (_OTHER, 1),
    }
    for topic, (leader, end_offset) in leaders.items():
        epoch = worlds.settle(topic, leader, replicas[topic], elr=())
        worlds.observe(topic, epoch, end_offset)


def idempotent_producer_stays_at_a_former_leader(worlds: NodeWorlds) -> None:
    """Send sequences to a former leader that does not know of its successor."""
    worlds.create("led", (_ISOLATED, _OTHER, _THIRD))
    worlds.begin("before the isolation")
    name, isolated = worlds.full_name("led"), worlds.node(_ISOLATED)
    number, epoch = producer_id(isolated)

    def send(node_id: int, sequence: int, acks: int = 1) -> None:
        records = Batch(producer_id=number, producer_epoch=epoch, base_sequence=sequence).encode()
        worlds.node(node_id).ask(produce(name, records, acks=acks), 10)

    send(_ISOLATED, 0, acks=-1)
    worlds.settle("led", _ISOLATED, (_ISOLATED, _OTHER, _THIRD))
    worlds.isolate(_ISOLATED)
    worlds.settle("led", _OTHER, (_OTHER, _THIRD))
    worlds.begin("after the election")
    for sequence in (0, 1, 1, 3, 2):
        send(_ISOLATED, sequence)
    for sequence in (0, 2, 1):
        send(_OTHER, sequence)

    worlds.connect(_ISOLATED)
    worlds.begin("after the return")
    worlds.settle("led", _OTHER, (_ISOLATED, _OTHER, _THIRD))
    for sequence in (1, 2):
        send(_OTHER, sequence)


def requests_for_the_controller_wait(worlds: NodeWorlds) -> None:
    """Send requests for the controller to an isolated node, and connect it again."""
    worlds.create("led", (_ISOLATED, _OTHER))
    worlds.isolate(_ISOLATED)
    worlds.begin("before the return")
    isolated = worlds.node(_ISOLATED)
    topic = CreateTopicsRequest.CreatableTopic(
        name=worlds.full_name("created"), num_partitions=1, replication_factor=1
    )
    isolated.send(CreateTopicsRequest(topics=[topic], timeout_ms=_LONG_MS), 7, on="create")
    election = ElectLeadersRequest.TopicPartitions(topic=worlds.full_name("led"), partitions=[0])
    elect = ElectLeadersRequest(topic_partitions=[election], timeout_ms=_LONG_MS)
    isolated.send(elect, 2, on="elect")
    worlds.settle("led", _OTHER, (_OTHER,))
    row = MetadataRequest.MetadataRequestTopic(name=worlds.full_name("created"))
    worlds.node(_OTHER).ask(MetadataRequest(topics=[row], allow_auto_topic_creation=False), 12)

    worlds.connect(_ISOLATED)
    worlds.begin("after the return")
    isolated.receive("create", title="CreateTopics")
    answer = isolated.connection("elect").receive()
    assert answer.error_code == ErrorCode.NONE, answer


def records_are_deleted_at_a_former_leader(worlds: NodeWorlds) -> None:
    """Send DeleteRecords to a former leader that does not know of its successor."""
    topics = {"led": (_ISOLATED, _OTHER, _THIRD), "alone": (_ISOLATED,)}
    for topic, node_ids in topics.items():
        worlds.create(topic, node_ids)
        for value in (b"first", b"second"):
            worlds.produce(_ISOLATED, topic, value)
        worlds.settle(topic, _ISOLATED, node_ids)
    worlds.isolate(_ISOLATED)
    worlds.settle("led", _OTHER, (_OTHER, _THIRD))
    worlds.settle("alone", NO_LEADER, ())
    worlds.begin("after the election")
    for topic in topics:
        for offset in (1, 3, -1):
            worlds.node(_ISOLATED).ask(delete_records(worlds.full_name(topic), offset), 2)
        for node_id in (_ISOLATED, _OTHER):
            request = list_offsets(worlds.full_name(topic), timestamp=EARLIEST)
            worlds.node(node_id).ask(request, 7)
            for offset in range(4):
                worlds.fetch(worlds.fetch_request(topic, offset), node_id)


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
