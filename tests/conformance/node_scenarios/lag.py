"""A follower that lags: it leaves the in-sync replicas, and joins them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.batches import batch
from tests.conformance.setup import produce

if TYPE_CHECKING:
    from tests.conformance.scenario_nodes import ScenarioNodes

_LEADER, _OTHER, _LAGGING = 1, 2, 3
_SHORT_MS = 1_500
_LONG_MS = 60_000
_LONGER_THAN_FETCH_MS = 700
"""Longer than `replica.fetch.wait.max.ms`, but shorter than a session."""


def follower_lags_and_catches_up(nodes: ScenarioNodes) -> None:
    """Pause a follower for longer than `replica.lag.time.max.ms`, but keep its session."""
    replicas = {
        "pair": (_LEADER, _LAGGING),
        "idle": (_LEADER, _LAGGING),
        "triple": (_LEADER, _OTHER, _LAGGING),
        "hasty": (_LEADER, _LAGGING),
        "patient": (_LEADER, _LAGGING),
    }
    for topic, node_ids in replicas.items():
        min_isr = "1" if topic in {"pair", "idle"} else "2"
        nodes.create(topic, node_ids, min_insync_replicas=min_isr)
        nodes.produce(_LEADER, topic, b"first")
        nodes.settle(topic, _LEADER, node_ids)

    nodes.pause_replication(_LAGGING)
    nodes.begin("while a follower is paused")
    leader = nodes.node(_LEADER)
    for topic, timeout_ms in (
        ("pair", _LONG_MS), ("triple", _LONG_MS), ("hasty", _SHORT_MS), ("patient", _LONG_MS)
    ):  # fmt: skip
        request = produce(nodes.full_name(topic), batch(b"second"), timeout_ms=timeout_ms)
        leader.send(request, 10, on=topic)
    nodes.wait_for_isr("pair", (_LEADER,))
    nodes.begin("after the follower left the ISR")
    for topic in ("pair", "triple", "hasty"):
        leader.receive(topic, title=f"Produce to {topic}")
    nodes.settle("pair", _LEADER, (_LEADER,), elr=())
    nodes.settle("triple", _LEADER, (_LEADER, _OTHER), elr=())
    nodes.settle("hasty", _LEADER, (_LEADER,), elr=(_LAGGING,))
    nodes.settle("patient", _LEADER, (_LEADER,), elr=(_LAGGING,))
    nodes.describe_cluster()
    for topic in replicas:
        nodes.describe(topic)
        for offset in range(4):
            for rack in ("", "b", "c"):
                nodes.fetch(nodes.fetch_request(topic, offset, rack=rack), _LEADER)
    nodes.produce(_LEADER, "hasty", b"refused")
    nodes.produce(_LEADER, "hasty", b"third", acks=1)
    nodes.produce(_LEADER, "pair", b"third")

    nodes.resume_replication(_LAGGING)
    nodes.begin("after the follower caught up")
    leader.receive("patient", title="Produce to patient")
    end_offsets = {"pair": 3, "idle": 1, "triple": 2, "hasty": 3, "patient": 2}
    for topic, node_ids in replicas.items():
        epoch = nodes.settle(topic, _LEADER, node_ids, elr=())
        nodes.observe(topic, epoch, end_offsets[topic])


def lagging_follower_leads(nodes: ScenarioNodes) -> None:
    """Kill a leader whose follower lacks records, but is still in sync: they are truncated."""
    replicas = {"pair": (_OTHER, _LAGGING), "triple": (_OTHER, _LAGGING, _LEADER)}
    nodes.create("decoy", (_OTHER, _LAGGING))
    for topic, node_ids in replicas.items():
        nodes.create(topic, node_ids)
        nodes.produce(_OTHER, topic, b"first")
        nodes.settle(topic, _OTHER, node_ids)
    nodes.begin("before the kill")
    nodes.pause_replication(_LAGGING)
    # A real follower may wait for the answer of a fetch, and reads it when it continues. This
    # record is that answer. The request times out after the longest wait of a fetch.
    nodes.produce(_OTHER, "decoy", b"answers that fetch", timeout_ms=_LONGER_THAN_FETCH_MS)
    for topic in replicas:
        for value in (b"second", b"third"):
            nodes.produce(_OTHER, topic, value, acks=1)
        nodes.fetch(nodes.fetch_request(topic, 1), _OTHER)

    nodes.kill(_OTHER)
    nodes.resume_replication(_LAGGING)
    nodes.begin("after the kill")
    for topic, isr in (("pair", (_LAGGING,)), ("triple", (_LAGGING, _LEADER))):
        epoch = nodes.settle(topic, _LAGGING, isr)
        nodes.observe(topic, epoch, 1)
        nodes.produce(_LAGGING, topic, b"other")
        nodes.settle(topic, _LAGGING, isr)
        nodes.observe(topic, epoch, 2)

    nodes.start(_OTHER)
    nodes.begin("after the restart")
    for topic, node_ids in replicas.items():
        epoch = nodes.settle(topic, _LAGGING, node_ids)
        nodes.observe(topic, epoch, 2)


SCENARIOS = (follower_lags_and_catches_up, lagging_follower_leads)
