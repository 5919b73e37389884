"""A node that is the active controller fails and returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.scenario_nodes import NO_LEADER, PREFERRED
from tests.oracle.node_clusters import NODE_IDS

if TYPE_CHECKING:
    from tests.conformance.scenario_nodes import ScenarioNodes


def controller_fails_and_returns(nodes: ScenarioNodes, controller: int) -> None:
    """Kill the node of the active controller, change metadata meanwhile, and start it again."""
    second, third = (node_id for node_id in NODE_IDS if node_id != controller)
    replicas = {
        "led": (controller, second, third),
        "followed": (second, controller),
        "strict": (controller, third),
        "alone": (controller,),
        "elsewhere": (third, second),
    }
    for topic, node_ids in replicas.items():
        min_isr = "2" if topic == "strict" else "1"
        nodes.create(topic, node_ids, min_insync_replicas=min_isr)
        nodes.produce(node_ids[0], topic, b"first")
        nodes.settle(topic, node_ids[0], node_ids)

    nodes.kill(controller)
    nodes.begin("after a kill")
    epochs = {
        "led": nodes.settle("led", second, (second, third)),
        "followed": nodes.settle("followed", second, (second,)),
        "strict": nodes.settle("strict", third, (third,), elr=(controller,)),
        "alone": nodes.settle("alone", NO_LEADER, (), elr=(controller,)),
        "elsewhere": nodes.settle("elsewhere", third, (third, second)),
    }
    nodes.describe_cluster()
    for topic, epoch in epochs.items():
        nodes.observe(topic, epoch, 1)
    nodes.create("new", (third, second))
    nodes.produce(third, "new", b"first")
    nodes.produce(second, "led", b"second")
    nodes.elect(PREFERRED, "led", "elsewhere")

    nodes.start(controller)
    nodes.begin("after the restart")
    replicas["new"] = (third, second)
    leaders = {"led": second, "strict": third}
    for topic, node_ids in replicas.items():
        epoch = nodes.settle(topic, leaders.get(topic, node_ids[0]), node_ids, elr=())
        nodes.observe(topic, epoch, 2 if topic == "led" else 1)
    nodes.describe_cluster()

    nodes.begin("after a preferred election")
    nodes.elect(PREFERRED, *replicas)
    for topic, node_ids in replicas.items():
        nodes.settle(topic, node_ids[0], node_ids)
        nodes.describe(topic)
