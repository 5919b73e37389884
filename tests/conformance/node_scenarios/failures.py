"""Leaders, in-sync replicas and epochs while nodes fail and return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.node_world import NO_LEADER, PREFERRED, UNCLEAN

if TYPE_CHECKING:
    from tests.conformance.node_world import NodeWorlds


def leader_fails_and_returns(worlds: NodeWorlds) -> None:
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
        worlds.create(topic, node_ids, min_insync_replicas=min_isr)
    worlds.begin("at first")
    for topic, (leader, *_) in replicas.items():
        worlds.produce(leader, topic, b"first")
        worlds.produce(3 if leader == 1 else 1, topic, b"refused")
    for topic, isr in replicas.items():
        worlds.settle(topic, isr[0], isr)
        worlds.observe(topic, 0, 1)

    worlds.kill(2)
    worlds.begin("after a kill")
    epochs = {
        "led": worlds.settle("led", 1, (1, 3)),
        "followed": worlds.settle("followed", 1, (1,)),
        "strict": worlds.settle("strict", 1, (1,), elr=(2,)),
        "strictly-led": worlds.settle("strictly-led", 3, (3,), elr=(2,)),
        "alone": worlds.settle("alone", NO_LEADER, (), elr=(2,)),
    }
    worlds.describe_cluster()
    for topic, epoch in epochs.items():
        worlds.observe(topic, epoch, 1)
    for topic, leader in (("led", 1), ("followed", 1), ("strict", 1), ("strictly-led", 3)):
        worlds.produce(leader, topic, b"second")
    worlds.produce(1, "strict", b"unreplicated", acks=1)
    worlds.produce(1, "alone", b"refused")
    worlds.elect(PREFERRED, "led", "followed", "alone")
    worlds.elect(UNCLEAN, "led", "alone")

    worlds.start(2)
    worlds.begin("after the restart")
    epochs = {
        "led": worlds.settle("led", 1, (1, 2, 3), elr=()),
        "followed": worlds.settle("followed", 1, (1, 2), elr=()),
        "strict": worlds.settle("strict", 1, (1, 2), elr=()),
        "strictly-led": worlds.settle("strictly-led", 3, (2, 3), elr=()),
        "alone": worlds.settle("alone", 2, (2,), elr=()),
    }
    worlds.describe_cluster()
    for topic, epoch in epochs.items():
        worlds.observe(topic, epoch, 2)

    worlds.begin("after a preferred election")
    worlds.elect(PREFERRED, *epochs)
    epochs = {
        "led": worlds.settle("led", 2, (1, 2, 3)),
        "strictly-led": worlds.settle("strictly-led", 2, (2, 3)),
    }
    for topic, epoch in epochs.items():
        worlds.produce(2, topic, b"third")
        worlds.settle(topic, 2, (1, 2, 3) if topic == "led" else (2, 3))
        worlds.observe(topic, epoch, 3)


def leader_shuts_down_and_returns(worlds: NodeWorlds) -> None:
    """Shut the leader down in a controlled way, and start it again."""
    replicas = {"led": (2, 1, 3), "strictly-led": (2, 3), "alone": (2,)}
    for topic, node_ids in replicas.items():
        min_isr = "2" if topic == "strictly-led" else "1"
        worlds.create(topic, node_ids, min_insync_replicas=min_isr)
        worlds.produce(2, topic, b"first")
        worlds.settle(topic, 2, node_ids)
    worlds.stop(2)
    worlds.begin("after a shutdown")
    epochs = {
        "led": worlds.settle("led", 1, (1, 3)),
        "strictly-led": worlds.settle("strictly-led", 3, (3,), elr=(2,)),
        "alone": worlds.settle("alone", NO_LEADER, (), elr=(2,)),
    }
    worlds.describe_cluster()
    for topic, epoch in epochs.items():
        worlds.observe(topic, epoch, 1)
    worlds.start(2)
    worlds.begin("after the restart")
    epochs = {
        "led": worlds.settle("led", 1, (1, 2, 3)),
        "strictly-led": worlds.settle("strictly-led", 3, (2, 3), elr=()),
        "alone": worlds.settle("alone", 2, (2,), elr=()),
    }
    for topic, epoch in epochs.items():
        worlds.observe(topic, epoch, 1)


def unclean_election_truncates(worlds: NodeWorlds) -> None:
    """Elect a replica that lacks records, while the nodes with these records are down."""
    worlds.create("torn", (3, 2))
    worlds.create("strict", (3, 2), min_insync_replicas="2")
    worlds.create("loose", (3, 2), unclean_leader_election_enable="true")
    topics = ("torn", "strict", "loose")
    worlds.begin("at first")
    for topic in topics:
        worlds.produce(3, topic, b"first")
    worlds.kill(2)
    for topic in topics:
        worlds.settle(topic, 3, (3,))
        for value in (b"second", b"third"):
            worlds.produce(3, topic, value, acks=1)
    worlds.settle("torn", 3, (3,), elr=())
    worlds.settle("strict", 3, (3,), elr=(2,))

    worlds.begin("after both were killed")
    worlds.kill(3)
    for topic in topics:
        worlds.settle(topic, NO_LEADER, ())
        worlds.describe(topic)
    worlds.start(2)
    epochs = {
        "torn": worlds.settle("torn", NO_LEADER, (), elr=(3,)),
        "loose": worlds.settle("loose", 2, (2,)),
    }
    epochs["strict"] = worlds.settle("strict", NO_LEADER, (), elr=(3,))
    for topic, epoch in epochs.items():
        worlds.observe(topic, epoch, 1)

    worlds.begin("after an unclean election")
    worlds.elect(UNCLEAN, *topics)
    for topic in topics:
        worlds.settle(topic, 2, (2,))
    for topic in topics:
        worlds.produce(2, topic, b"other", acks=1)
        worlds.observe(topic, worlds.settle(topic, 2, (2,)), 2)

    worlds.begin("after the restart")
    worlds.start(3)
    for topic in topics:
        worlds.observe(topic, worlds.settle(topic, 2, (2, 3), elr=()), 2)


def all_nodes_fail_and_return(worlds: NodeWorlds) -> None:
    """Kill all nodes one after the other, and start them again in the opposite order."""
    replicas = {"led": (2, 1, 3), "alone": (1,), "elsewhere": (3, 2)}
    for topic, node_ids in replicas.items():
        worlds.create(topic, node_ids)
        worlds.produce(node_ids[0], topic, b"first")
        worlds.settle(topic, node_ids[0], node_ids)
    worlds.kill(3)
    worlds.settle("elsewhere", 2, (2,))
    worlds.kill(2)
    worlds.settle("led", 1, (1,))
    worlds.kill(1)

    worlds.start(1)
    worlds.begin("after the last node returned")
    for topic, leader in (("led", 1), ("alone", 1), ("elsewhere", NO_LEADER)):
        epoch = worlds.settle(topic, leader, () if leader == NO_LEADER else (leader,))
        worlds.observe(topic, epoch, 1)
    worlds.describe_cluster()
    worlds.produce(1, "led", b"second")
    worlds.start(2)
    worlds.start(3)
    worlds.begin("after all nodes returned")
    for topic, leader in (("led", 1), ("alone", 1), ("elsewhere", 2)):
        epoch = worlds.settle(topic, leader, replicas[topic], elr=())
        worlds.observe(topic, epoch, 2 if topic == "led" else 1)
    worlds.describe_cluster()


SCENARIOS = (
    leader_fails_and_returns,
    leader_shuts_down_and_returns,
    unclean_election_truncates,
    all_nodes_fail_and_return,
)
