"""Leaders, in-sync replicas and epochs while nodes fail and return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.scenario_nodes import NO_LEADER, PREFERRED, UNCLEAN

if TYPE_CHECKING:
    from tests.conformance.scenario_nodes import ScenarioNodes


def leader_fails_and_returns(nodes: ScenarioNodes) -> None:
    """Kill the leader of several topics, start it again, and elect the preferred leaders."""
    replicas = {
        "led": (2, 1, 3),
        "followed": (1, 2),
        "strict": (1, 2),
        "strictly-led": (2, 3),
        "alone": (2,),
    }
    for topic, node_ids in replicas.items():
        min_isr = "2" if topic.startswith("strict") else "1"
        nodes.create(topic, node_ids, min_insync_replicas=min_isr)
    nodes.begin("at first")
    for topic, (leader, *_) in replicas.items():
        nodes.produce(leader, topic, b"first")
        nodes.produce(3 if leader == 1 else 1, topic, b"refused")
    for topic, isr in replicas.items():
        nodes.settle(topic, isr[0], isr)
        nodes.observe(topic, 0, 1)

    nodes.kill(2)
    nodes.begin("after a kill")
    epochs = {
        "led": nodes.settle("led", 1, (1, 3)),
        "followed": nodes.settle("followed", 1, (1,)),
        "strict": nodes.settle("strict", 1, (1,), elr=(2,)),
        "strictly-led": nodes.settle("strictly-led", 3, (3,), elr=(2,)),
        "alone": nodes.settle("alone", NO_LEADER, (), elr=(2,)),
    }
    nodes.describe_cluster()
    for topic, epoch in epochs.items():
        nodes.observe(topic, epoch, 1)
    for topic, leader in (("led", 1), ("followed", 1), ("strict", 1), ("strictly-led", 3)):
        nodes.produce(leader, topic, b"second")
    nodes.produce(1, "strict", b"unreplicated", acks=1)
    nodes.produce(1, "alone", b"refused")
    nodes.elect(PREFERRED, "led", "followed", "alone")
    nodes.elect(UNCLEAN, "led", "alone")

    nodes.start(2)
    nodes.begin("after the restart")
    epochs = {
        "led": nodes.settle("led", 1, (1, 2, 3), elr=()),
        "followed": nodes.settle("followed", 1, (1, 2), elr=()),
        "strict": nodes.settle("strict", 1, (1, 2), elr=()),
        "strictly-led": nodes.settle("strictly-led", 3, (2, 3), elr=()),
        "alone": nodes.settle("alone", 2, (2,), elr=()),
    }
    nodes.describe_cluster()
    for topic, epoch in epochs.items():
        nodes.observe(topic, epoch, 2)

    nodes.begin("after a preferred election")
    nodes.elect(PREFERRED, *epochs)
    epochs = {
        "led": nodes.settle("led", 2, (1, 2, 3)),
        "strictly-led": nodes.settle("strictly-led", 2, (2, 3)),
    }
    for topic, epoch in epochs.items():
        nodes.produce(2, topic, b"third")
        nodes.settle(topic, 2, (1, 2, 3) if topic == "led" else (2, 3))
        nodes.observe(topic, epoch, 3)


def leader_shuts_down_and_returns(nodes: ScenarioNodes) -> None:
    """Shut the leader down in a controlled way, and start it again."""
    replicas = {"led": (2, 1, 3), "strictly-led": (2, 3), "alone": (2,)}
    for topic, node_ids in replicas.items():
        min_isr = "2" if topic == "strictly-led" else "1"
        nodes.create(topic, node_ids, min_insync_replicas=min_isr)
        nodes.produce(2, topic, b"first")
        nodes.settle(topic, 2, node_ids)
    nodes.stop(2)
    nodes.begin("after a shutdown")
    epochs = {
        "led": nodes.settle("led", 1, (1, 3)),
        "strictly-led": nodes.settle("strictly-led", 3, (3,), elr=(2,)),
        "alone": nodes.settle("alone", NO_LEADER, (), elr=(2,)),
    }
    nodes.describe_cluster()
    for topic, epoch in epochs.items():
        nodes.observe(topic, epoch, 1)
    nodes.start(2)
    nodes.begin("after the restart")
    epochs = {
        "led": nodes.settle("led", 1, (1, 2, 3)),
        "strictly-led": nodes.settle("strictly-led", 3, (2, 3), elr=()),
        "alone": nodes.settle("alone", 2, (2,), elr=()),
    }
    for topic, epoch in epochs.items():
        nodes.observe(topic, epoch, 1)


def unclean_election_truncates(nodes: ScenarioNodes) -> None:
    """Elect a replica that lacks records, while the nodes with these records are down."""
    nodes.create("torn", (3, 2))
    nodes.create("strict", (3, 2), min_insync_replicas="2")
    nodes.create("loose", (3, 2), unclean_leader_election_enable="true")
    topics = ("torn", "strict", "loose")
    nodes.begin("at first")
    for topic in topics:
        nodes.produce(3, topic, b"first")
    nodes.kill(2)
    for topic in topics:
        nodes.settle(topic, 3, (3,))
        for value in (b"second", b"third"):
            nodes.produce(3, topic, value, acks=1)
    nodes.settle("torn", 3, (3,), elr=())
    nodes.settle("strict", 3, (3,), elr=(2,))

    nodes.begin("after both were killed")
    nodes.kill(3)
    for topic in topics:
        nodes.settle(topic, NO_LEADER, ())
        nodes.describe(topic)
    nodes.start(2)
    epochs = {
        "torn": nodes.settle("torn", NO_LEADER, (), elr=(3,)),
        "loose": nodes.settle("loose", 2, (2,)),
    }
    epochs["strict"] = nodes.settle("strict", NO_LEADER, (), elr=(3,))
    for topic, epoch in epochs.items():
        nodes.observe(topic, epoch, 1)

    nodes.begin("after an unclean election")
    nodes.elect(UNCLEAN, *topics)
    for topic in topics:
        nodes.settle(topic, 2, (2,))
    for topic in topics:
        nodes.produce(2, topic, b"other", acks=1)
        nodes.observe(topic, nodes.settle(topic, 2, (2,)), 2)

    nodes.begin("after the restart")
    nodes.start(3)
    for topic in topics:
        nodes.observe(topic, nodes.settle(topic, 2, (2, 3), elr=()), 2)


def all_nodes_fail_and_return(nodes: ScenarioNodes) -> None:
    """Kill all nodes one after the other, and start them again in the opposite order."""
    replicas = {"led": (2, 1, 3), "alone": (1,), "elsewhere": (3, 2)}
    for topic, node_ids in replicas.items():
        nodes.create(topic, node_ids)
        nodes.produce(node_ids[0], topic, b"first")
        nodes.settle(topic, node_ids[0], node_ids)
    nodes.kill(3)
    nodes.settle("elsewhere", 2, (2,))
    nodes.kill(2)
    nodes.settle("led", 1, (1,))
    nodes.kill(1)

    nodes.start(1)
    nodes.begin("after the last node returned")
    for topic, leader in (("led", 1), ("alone", 1), ("elsewhere", NO_LEADER)):
        epoch = nodes.settle(topic, leader, () if leader == NO_LEADER else (leader,))
        nodes.observe(topic, epoch, 1)
    nodes.describe_cluster()
    nodes.produce(1, "led", b"second")
    nodes.start(2)
    nodes.start(3)
    nodes.begin("after all nodes returned")
    for topic, leader in (("led", 1), ("alone", 1), ("elsewhere", 2)):
        epoch = nodes.settle(topic, leader, replicas[topic], elr=())
        nodes.observe(topic, epoch, 2 if topic == "led" else 1)
    nodes.describe_cluster()


SCENARIOS = (
    leader_fails_and_returns,
    leader_shuts_down_and_returns,
    unclean_election_truncates,
    all_nodes_fail_and_return,
)
