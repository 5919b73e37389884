"""Commands, as a broker carries them out."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.cluster.node_control import UnknownNodeError
from kafkalite.control.commands import (
    REMOVED,
    AddNode,
    AdvanceClock,
    CommandError,
    Explain,
    ListNodes,
    MoveLeader,
    RemoveNode,
    RunClock,
    SetClock,
    SetNodeMetadata,
    SetNodeReplication,
    SetNodeState,
    ShowClientMetrics,
    ShowClock,
    ShowNode,
    new_clock,
    perform_client_metrics,
    perform_clock_command,
    perform_explain,
    perform_move_leader,
    perform_node_command,
    rate_of,
)
from kafkalite.coordinator.contract import Event, SubjectKind
from kafkalite.coordinator.event_history import EventHistory
from kafkalite.ports.clock import AdjustableClock
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.server.broker import Broker as ServerBroker
from kafkalite.server.settings import Settings
from kafkalite.testing.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkalite.control.commands import ClockCommand
    from kafkalite.ports.clock import Clock
    from kafkalite.server.broker import Broker


def broker(clock: Clock | None = None) -> Broker:
    clock = clock or AdjustableClock(rate=0, now_ms=1_000)
    return cast("Broker", SimpleNamespace(clock=clock, history=EventHistory()))


async def test_clock_commands_are_carried_out() -> None:
    driven = broker()
    steps: list[tuple[ClockCommand, tuple[int, float, str]]] = [
        (ShowClock(), (1_000, 0, "manual")),
        (AdvanceClock(500), (1_500, 0, "manual")),
        (SetClock(2_000), (2_000, 0, "manual")),
    ]
    for command, expected in steps:
        state = await perform_clock_command(driven, command)
        assert (state.now_ms, state.rate, state.mode) == expected
    assert (await perform_clock_command(driven, RunClock(60))).mode == "accelerated"
    assert (await perform_clock_command(driven, RunClock(1))).mode == "real"


async def test_answers_that_a_jump_triggers_are_sent_before_it_returns() -> None:
    clock = AdjustableClock(rate=0, now_ms=0)
    sent: list[str] = []

    def answer_in_next_iteration() -> None:
        asyncio.get_running_loop().call_soon(sent.append, "answer")

    clock.call_at(5, answer_in_next_iteration)
    await perform_clock_command(broker(clock), AdvanceClock(10))
    assert sent == ["answer"]


@pytest.mark.parametrize(
    "command", [AdvanceClock(-1), SetClock(999), SetClock(10**20), RunClock(-1), RunClock(10**9)]
)
async def test_an_invalid_command_changes_nothing(command: ClockCommand) -> None:
    driven = broker()
    with pytest.raises(CommandError):
        await perform_clock_command(driven, command)
    state = await perform_clock_command(driven, ShowClock())
    assert (state.now_ms, state.rate) == (1_000, 0)


async def test_a_clock_of_the_embedding_program_is_not_changed() -> None:
    with pytest.raises(CommandError, match="controlled by the program"):
        await perform_clock_command(broker(ManualClock()), AdvanceClock(1))


def test_the_history_of_one_group_or_of_all_is_returned() -> None:
    running = broker()
    for number, group in enumerate(("a", "b", "a")):
        running.history.add(Event(group, "joined", f"m{number} joined", {}), number)
    one = perform_explain(running, Explain("a"))
    assert [entry.text for entry in one.entries] == ["m0 joined", "m2 joined"]
    assert (one.now_ms, one.groups) == (1_000, ["a", "b"])
    assert [entry.text for entry in perform_explain(running, Explain(limit=2)).entries] == [
        "m1 joined", "m2 joined",
    ]  # fmt: skip
    assert perform_explain(running, Explain("a", limit=-5)).entries == ()
    assert perform_explain(running, Explain("unknown")).entries == ()
    assert perform_explain(running, Explain(transactional_id="a")).entries == ()


def test_subjects_of_explain_cannot_be_combined() -> None:
    with pytest.raises(CommandError, match="takes one group"):
        Explain("g", transactional_id="t")
    with pytest.raises(CommandError, match="one topic"):
        Explain("g", topic="t")
    with pytest.raises(CommandError, match="one client"):
        Explain(topic="t", client="127.0.0.1")


def test_the_history_of_a_topic_is_returned() -> None:
    running = broker()
    running.history.add(Event("t", "refused", "epoch 3", {}, SubjectKind.TOPIC), 0)
    running.history.add(Event("t", "joined", "m1 joined", {}), 0)
    explanation = perform_explain(running, Explain(topic="t"))
    assert [entry.text for entry in explanation.entries] == ["epoch 3"]
    assert (explanation.groups, explanation.topics) == (["t"], ["t"])


@pytest.mark.parametrize(
    ("text", "rate", "now_ms"),
    [
        ("manual@1970-01-01T00:00:05Z", 0, 5_000),
        ("accelerated:60@2026-03-01", 60, None),
        ("accelerated:0.5", 0.5, None),
        ("real", 1, None),
        ("real@2031-01-01", 1, None),
    ],
)
def test_a_clock_is_created_from_text(text: str, rate: float, now_ms: int | None) -> None:
    clock = new_clock(text)
    assert clock.rate == rate
    if now_ms is not None:
        assert clock.now_ms() == now_ms
    elif "2031" in text:
        assert clock.now_ms() >= 1_924_992_000_000


@pytest.mark.parametrize(
    "text",
    ["", "fast", "accelerated", "accelerated:", "accelerated:x", "accelerated:0", "accelerated:-1",
     "manual:3", "real@yesterday", "manual@", "accelerated:nan"],
)  # fmt: skip
def test_invalid_text_creates_no_clock(text: str) -> None:
    with pytest.raises(CommandError) as refusal:
        new_clock(text)
    assert "\n" not in str(refusal.value)


def test_the_rate_must_fit_the_mode() -> None:
    assert (rate_of("real"), rate_of("manual"), rate_of("accelerated", 60)) == (1, 0, 60)
    assert rate_of("manual", 0) == 0
    with pytest.raises(CommandError, match="leave out the rate"):
        rate_of("real", 60)


# Nodes and leaders


@pytest.fixture
async def cluster() -> AsyncIterator[ServerBroker]:
    """Yield a broker of three nodes; each has a replica of topic `t`."""
    running = ServerBroker(
        Settings(
            listen=("127.0.0.1:0",),
            brokers=3,
            topics={"t": 1},
            config={"default.replication.factor": "3"},
        ),
        clock=AdjustableClock(rate=0, now_ms=0),
    )
    await running.start()
    yield running
    await running.stop(grace_s=0)


def leader_of(broker: ServerBroker) -> int:
    assert broker.cluster is not None
    return broker.cluster.metadata.image.topics["t"].partitions[0].leader


async def test_a_command_returns_the_affected_nodes(cluster: ServerBroker) -> None:
    listed = await perform_node_command(cluster, ListNodes())
    assert [status.node_id for status in listed] == [1, 2, 3]
    assert await perform_node_command(cluster, ShowNode(2)) == (listed[1],)
    (stopped,) = await perform_node_command(cluster, SetNodeState(2, "stopped"))
    assert stopped == (await perform_node_command(cluster, ListNodes()))[1]
    assert (stopped.state, stopped.metadata, stopped.led_partitions) == ("stopped", "stale", 0)
    (started,) = await perform_node_command(cluster, SetNodeState(2, "running"))
    assert started.listeners == listed[1].listeners
    (frozen,) = await perform_node_command(cluster, SetNodeMetadata(2, "frozen"))
    assert frozen.metadata == "frozen"
    (paused,) = await perform_node_command(cluster, SetNodeReplication(2, "paused"))
    assert paused.replication == "paused"


async def test_an_unknown_node_and_an_unknown_value_are_refused(cluster: ServerBroker) -> None:
    for command in (ShowNode(4), SetNodeState(4, "stopped"), SetNodeMetadata(4, "frozen")):
        with pytest.raises(UnknownNodeError):
            await perform_node_command(cluster, command)
    with pytest.raises(
        CommandError, match=r"^state must be running, isolated or stopped, not 'x'$"
    ):
        await perform_node_command(cluster, SetNodeState(2, "x"))


async def test_a_refusal_of_the_disk_is_one_sentence(
    cluster: ServerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cluster.cluster is not None

    def refuse(node_id: int) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"no space for node {node_id}.")

    monkeypatch.setattr(cluster.cluster.metadata, "fence", refuse)
    with pytest.raises(CommandError, match=r"^KAFKA_STORAGE_ERROR: no space for node 2$"):
        await perform_node_command(cluster, SetNodeState(2, "stopped"))


async def test_a_leader_is_moved(cluster: ServerBroker) -> None:
    leader = leader_of(cluster)
    target = leader % 3 + 1
    moved = await perform_move_leader(cluster, MoveLeader("t", 0, target))
    assert (moved.leader, moved.leader_epoch) == (target, 1) == (leader_of(cluster), 1)
    assert (moved.end_offset, moved.truncated_records) == (0, 0)
    assert await perform_move_leader(cluster, MoveLeader("t", 0, target)) == moved
    for impossible in (MoveLeader("t", 0, 4), MoveLeader("t", 1, 1), MoveLeader("u", 0, 1)):
        with pytest.raises(CommandError):
            await perform_move_leader(cluster, impossible)
    assert leader_of(cluster) == target


async def test_a_broker_that_is_not_running_has_no_nodes() -> None:
    stopped = cast("Broker", SimpleNamespace(cluster=None))
    with pytest.raises(CommandError, match=r"^the broker is not running$"):
        await perform_node_command(stopped, ListNodes())
    with pytest.raises(CommandError, match=r"^the broker is not running$"):
        await perform_move_leader(stopped, MoveLeader("t", 0, 1))


async def test_nodes_are_added_and_removed(cluster: ServerBroker) -> None:
    (added,) = await perform_node_command(cluster, AddNode(settings={"broker.rack": "b"}))
    assert (added.node_id, added.state, added.rack, added.is_registered) == (
        4,
        "running",
        "b",
        True,
    )
    assert await perform_node_command(cluster, ShowNode(4)) == (added,)
    for invalid, reason in (
        (AddNode(4), r"^node 4 exists already$"),
        (AddNode(5, {"log.dirs": "/x"}), r"^node 5: log.dirs cannot differ between nodes"),
    ):
        with pytest.raises(CommandError, match=reason):
            await perform_node_command(cluster, invalid)
    with pytest.raises(CommandError, match=r"^node 1 cannot be removed: it has replicas of 1 part"):
        await perform_node_command(cluster, RemoveNode(1))
    (removed,) = await perform_node_command(cluster, RemoveNode(4))
    assert (removed.node_id, removed.state, removed.is_registered) == (4, REMOVED, False)
    assert len(await perform_node_command(cluster, ListNodes())) == 3
    with pytest.raises(UnknownNodeError):
        await perform_node_command(cluster, RemoveNode(4))


async def test_a_controlled_stop_moves_the_leader(cluster: ServerBroker) -> None:
    leader = leader_of(cluster)
    command = SetNodeState(leader, "stopped", controlled=True)
    (stopped,) = await perform_node_command(cluster, command)
    assert (stopped.state, stopped.led_partitions) == ("stopped", 0)
    assert leader_of(cluster) not in (leader, -1)
    with pytest.raises(CommandError, match=r"^only a stop can be controlled, not the state 'runn"):
        SetNodeState(2, "running", controlled=True)


async def test_an_unregistered_node_is_not_registered(cluster: ServerBroker) -> None:
    assert cluster.cluster is not None
    cluster.cluster.metadata.unregister_broker(2)
    (status,) = await perform_node_command(cluster, ShowNode(2))
    assert (status.state, status.is_registered) == ("running", False)
    (started,) = await perform_node_command(cluster, SetNodeState(2, "running"))
    assert started.is_registered


def test_client_metrics_need_a_running_broker_that_receives_them() -> None:
    stopped = cast("Broker", SimpleNamespace(cluster=None))
    with pytest.raises(CommandError, match="the broker is not running"):
        perform_client_metrics(stopped, ShowClientMetrics())
    config = SimpleNamespace(bool=lambda _: False)
    running = cast("Broker", SimpleNamespace(cluster=SimpleNamespace(config=config)))
    with pytest.raises(CommandError, match=r"without the setting kafkalite\.client\.telemetry"):
        perform_client_metrics(running, ShowClientMetrics("c"))
