"""Requests that followers answer: fetches of consumers in their rack, and producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import Batch
from tests.conformance.setup import produce, producer_id
from tests.conformance.transactional_producer import describe_producers

if TYPE_CHECKING:
    from typing import Any

    from tests.conformance.scenario_nodes import ScenarioNodes


def consumers_fetch_from_their_rack(nodes: ScenarioNodes) -> None:
    """Fetch as a consumer in each rack from the leader and from followers."""
    nodes.create("racked", (1, 2))
    nodes.begin("with two replicas")
    for value in (b"first", b"second"):
        nodes.produce(1, "racked", value)
    nodes.settle("racked", 1, (1, 2))
    for offset in range(3):
        # The leader knows the end of the follower's log after the next fetch of the follower.
        nodes.wait_for(
            1,
            nodes.fetch_request("racked", offset, rack="b"),
            12,
            lambda row: row.preferred_read_replica == 2,
        )
    for offset in range(4):
        for rack in ("", "a", "b", "c", "d"):
            request = nodes.fetch_request("racked", offset, rack=rack)
            for version in (10, 11, 12, 17):
                nodes.fetch(request, 1, 2, version=version)
    for epoch in (0, 1):
        for request in (
            nodes.fetch_request("racked", 0, rack="b", current_leader_epoch=epoch),
            nodes.fetch_request("racked", 0, rack="b", last_fetched_epoch=epoch),
        ):
            nodes.fetch(request, 1, 2)
    nodes.fetch(nodes.fetch_request("racked", 0, rack="c"), 3)


def producers_are_described_by_every_replica(nodes: ScenarioNodes) -> None:
    """Write to the leader, then request the producers from every node."""
    nodes.create("written", (1, 2))
    nodes.begin("with two replicas")
    leader, follower, outsider = nodes.running()
    name = nodes.full_name("written")
    number, epoch = producer_id(leader)
    records = Batch(producer_id=number, producer_epoch=epoch, base_sequence=0).encode()
    leader.call_until(produce(name, records), 9, _is_accepted, is_recorded=False)
    for node in (leader, follower):
        node.call_until(describe_producers(name), 0, _has_a_producer)
    for node in (leader, follower, outsider):
        node.ask(describe_producers(name, 7), 0)
    outsider.ask(describe_producers(name), 0)


def _is_accepted(response: Any) -> bool:  # noqa: ANN401 - any response class
    code: int = response.responses[0].partition_responses[0].error_code
    return code == ErrorCode.NONE


def _has_a_producer(response: Any) -> bool:  # noqa: ANN401 - any response class
    return bool(response.topics[0].partitions[0].active_producers)


SCENARIOS = (
    consumers_fetch_from_their_rack,
    producers_are_described_by_every_replica,
)
