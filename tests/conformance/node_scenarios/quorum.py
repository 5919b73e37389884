"""Nodes that observe the quorum, and that stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.conformance.scenarios.quorum import METADATA, quorum

if TYPE_CHECKING:
    from tests.conformance.scenario_nodes import ScenarioNodes

_CONTROLLER, _OTHER, _STOPPED = 1, 2, 3
_LAG_MS: Final = 2_000


def stopped_node_is_a_lagging_observer(nodes: ScenarioNodes) -> None:
    """Kill the node of an observer: it remains one, and lags until it is started again."""
    _observe(nodes, "while all nodes run")
    nodes.kill(_STOPPED)
    nodes.create("new", (_CONTROLLER, _OTHER))
    _observe(nodes, "after a kill", lagging=_STOPPED)
    nodes.start(_STOPPED)
    _observe(nodes, "after the restart")


def _observe(nodes: ScenarioNodes, stage: str, *, lagging: int | None = None) -> None:
    """Wait until all observers but one follow, and put the replicas into the transcript."""
    nodes.begin(stage)

    def is_settled(answer: Any) -> bool:  # noqa: ANN401 - a response
        partition = answer.topics[0].partitions[0]
        (leader,) = partition.current_voters
        late = {
            each.replica_id
            for each in partition.observers
            if leader.last_caught_up_timestamp - each.last_caught_up_timestamp > _LAG_MS
        }
        return late == ({lagging} - {None})

    for node in nodes.running():
        answer = node.call_until(quorum((METADATA, (0,))), 2, is_settled, is_recorded=False)
        assert is_settled(answer), answer
        (partition,) = answer.topics[0].partitions
        (leader,) = partition.current_voters
        node.record("leader", [partition.leader_id, leader.replica_id])
        node.record("observers", sorted(each.replica_id for each in partition.observers))
        behind = [
            each.replica_id
            for each in partition.observers
            if each.replica_id == lagging and each.log_end_offset < leader.log_end_offset
        ]
        node.record("observers behind", [*behind])


SCENARIOS = (stopped_node_is_a_lagging_observer,)
