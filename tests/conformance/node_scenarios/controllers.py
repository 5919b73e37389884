"""A node that is the active controller fails and returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.node_world import NO_LEADER, PREFERRED
from tests.oracle.node_clusters import NODE_IDS

if TYPE_CHECKING:
    from tests.conformance.node_world import NodeWorlds


def controller_fails_and_returns(worlds: NodeWorlds, controller: int) -> None:
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
        worlds.create(topic, node_ids, min_insync_replicas=min_isr)
        worlds.produce(node_ids[0], topic, b"first")
        worlds.settle(topic, node_ids[0], node_ids)

    worlds.kill(controller)
    worlds.begin("after a kill")
    epochs = {
        "led": worlds.settle("led", second, (second, third)),
        "followed": worlds.settle("followed", second, (second,)),
        "strict": worlds.settle("strict", third, (third,), elr=(controller,)),
        "alone": worlds.settle("alone", NO_LEADER, (), elr=(controller,)),
        "elsewhere": worlds.settle("elsewhere", third, (third, second)),
    }
    worlds.describe_cluster()
    for topic, epoch in epochs.items():
        worlds.observe(topic, epoch, 1)
    worlds.create("new", (third, second))
    worlds.produce(third, "new", b"first")
    worlds.produce(second, "led", b"second")
    worlds.elect(PREFERRED, "led", "elsewhere")

    worlds.start(controller)
    worlds.begin("after the restart")
    replicas["new"] = (third, second)
    leaders = {"led": second, "strict": third}
    for topic, node_ids in replicas.items():
        epoch = worlds.settle(topic, leaders.get(topic, node_ids[0]), node_ids, elr=())
        worlds.observe(topic, epoch, 2 if topic == "led" else 1)
    worlds.describe_cluster()

    worlds.begin("after a preferred election")
    worlds.elect(PREFERRED, *replicas)
    for topic, node_ids in replicas.items():
        worlds.settle(topic, node_ids[0], node_ids)
        worlds.describe(topic)
