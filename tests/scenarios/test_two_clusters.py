"""Two clusters on one event loop: each does what it does alone, bit by bit.

A cluster with a stopped clock and seeded randomness answers the same requests in the same way. So
each cluster runs once alone and once step by step in turn with the other one, and everything that
can be seen of it must be equal.
"""

from __future__ import annotations

import asyncio
import gc
import io
import json
import re
import weakref
from typing import TYPE_CHECKING, Any

from kafkalite.control.address import control_address
from kafkalite.control.client import ControlClient
from kafkalite.control.commands.clock import ChangeClock, ShowClock
from kafkalite.control.commands.explain import Explain
from kafkalite.control.commands.faults import AddFault, ListFaults
from kafkalite.control.commands.health import ShowHealth
from kafkalite.control.commands.nodes import ChangeNode, ListNodes
from kafkalite.control.endpoint import Endpoint
from kafkalite.control.server import ControlServer
from kafkalite.gateway.fault_rules import Action, Match, Trigger
from kafkalite.gateway.steps import StepOrder
from kafkalite.metadata.client_quotas import QuotaAlteration
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol._generated.messages.sasl_handshake import SaslHandshakeRequest
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.security.sasl.users import User
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from tests.unit.data_plane import batch_of
from tests.unit.server.client import Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kafkalite.control.command_table import Command
    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.exchanges import Exchange
    from kafkalite.gateway.steps import Handler

LATE_LOOP = "the event loop was late"
SASL_LISTENER = ("SASL_PLAINTEXT://127.0.0.1:0",)


class Run:
    """A cluster with a control endpoint, and notes about everything that can be seen of it."""

    settings: Settings
    start_ms: int
    seed: int
    level: Level

    def __init__(self, path: Path) -> None:
        self.notes: list[str] = []
        self._log_output = io.StringIO()
        self.clock = AdjustableClock(rate=0, now_ms=self.start_ms)
        log = Log(self.level, "json", self._log_output)
        self.broker = Broker(
            self.settings._replace(data_directory=str(path / str(self.seed))),
            log,
            clock=self.clock,
            entropy=SeededEntropy(self.seed),
        )
        self._server = ControlServer(self.broker, control_address("0"), log)

    async def steps(self) -> AsyncIterator[None]:
        """Start, do everything, and stop, in steps."""
        await self.broker.start()
        await self._server.start()
        cluster = self.broker.cluster
        assert cluster is not None
        self._ports = re.compile(
            "|".join(re.findall(r":(\d+)", self.broker.bootstrap_servers + self._server.url))
        )
        self._control = ControlClient(Endpoint(self._server.url))
        self.broker.subscribe(self._observe)
        async for _ in self.work():
            yield
        for command in (ShowHealth(), ShowClock(), ListFaults(), ListNodes(), Explain()):
            await self.order(command)
            yield
        is_gone = weakref.ref(cluster)
        del cluster
        await self._server.stop()
        self.note("was stopped", await self.broker.stop(grace_s=0.1))
        del self.broker, self._server
        gc.collect()
        assert is_gone() is None
        for line in map(json.loads, self._log_output.getvalue().splitlines()):
            del line["timestamp"]
            if line["event"] != LATE_LOOP:
                self.note("log", line)

    def work(self) -> AsyncIterator[None]:
        """Return the steps while the broker runs."""
        raise NotImplementedError

    def note(self, *facts: object) -> None:
        self.notes.append(self._ports.sub("PORT", repr(facts)))

    def _observe(self, exchange: Exchange) -> None:
        self.note("observed", exchange.api_key, exchange.version, exchange.error_codes())

    async def order(self, command: Command[Any]) -> Any:  # noqa: ANN401 - the answer of the command
        """Send a command to the control endpoint."""
        answer = await asyncio.to_thread(self._control.send, command)
        self.note(command, answer)
        return answer

    async def client(self, node: int = 0) -> Client:
        return await Client.to(self.broker.bootstrap_servers.split(",")[node])

    async def ask(self, client: Client, request: Any, version: int) -> Any:  # noqa: ANN401 - any API
        answer = await client.ask(request, version)
        if isinstance(request, FetchRequest):
            records = answer.responses[0].partitions[0]
            records.records = bytes(records.records)
        self.note(request.API_KEY, answer)
        return answer


def produce(partition: int, *values: bytes) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=partition, records=batch_of(*values))
    topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


def fetch(partition: int) -> FetchRequest:
    asked = FetchRequest.FetchPartition(partition=partition, partition_max_bytes=1000)
    topic = FetchRequest.FetchTopic(topic="orders", partitions=[asked])
    return FetchRequest(max_wait_ms=0, max_bytes=1000, topics=[topic])


class SlowStep:
    """A step in which each request takes a second by the clock of its cluster."""

    def __init__(self, clock: AdjustableClock) -> None:
        self._clock = clock

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        del api, version

        def handle(call: Call, request: object) -> object:
            self._clock.advance(1000)
            return handler(call, request)

        return handle


class OldCluster(Run):
    """One node of an older release: classic groups, quotas, a fault, and a bug in a timer."""

    settings = Settings(
        listen=("127.0.0.1:0",),
        topics={"orders": 1},
        as_version="3.7",
        config={"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"},
    )
    start_ms = 1_500_000_000_000
    seed = 1
    level = Level.DEBUG

    async def work(self) -> AsyncIterator[None]:
        client = await self.client()
        versions = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        await self.ask(client, versions, 3)
        await self.ask(client, MetadataRequest(topics=None), 12)
        yield
        await self.ask(client, produce(0, b"old"), 9)
        await self.ask(client, fetch(0), 12)
        yield
        await self.ask(client, FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range")],
        )
        joined = await self.ask(client, join, 3)
        member = {"generation_id": joined.generation_id, "member_id": joined.member_id}
        await self.ask(client, SyncGroupRequest(group_id="g", **member), 3)
        yield
        await self.order(
            AddFault(
                Match(api=ApiKey.HEARTBEAT),
                Trigger(times=1),
                Action(error=ErrorCode.NOT_COORDINATOR),
            )
        )
        heartbeat = HeartbeatRequest(group_id="g", **member)
        refused = await self.ask(client, heartbeat, 4)
        assert refused.error_code == ErrorCode.NOT_COORDINATOR
        yield
        for step in self._throttled(client, heartbeat):
            await step
            yield
        self.clock.call_at(self.clock.now_ms() + 1, self._fail)
        await self.order(ChangeClock(advance_ms=120_000))
        expired = await self.ask(client, heartbeat, 4)
        assert expired.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        yield
        await client.close()

    def _throttled(self, client: Client, heartbeat: HeartbeatRequest) -> Any:  # noqa: ANN401 - coroutines
        """Yield heartbeats: in order, above a quota, and in order again."""
        assert self.broker.cluster is not None
        metadata, entity = self.broker.cluster.metadata, (("client-id", None),)
        slow = SlowStep(self.clock)
        yield self.ask(client, heartbeat, 4)
        metadata.alter_client_quotas([QuotaAlteration(entity, (("request_percentage", 1.0),))])
        self.broker.gateway.install(slow, StepOrder.AUTHORIZE)
        yield self.ask(client, heartbeat, 4)
        self.broker.gateway.remove(slow)
        metadata.alter_client_quotas([QuotaAlteration(entity, (("request_percentage", None),))])
        self.clock.advance(1000)
        yield self.ask(client, heartbeat, 4)

    @staticmethod
    def _fail() -> None:
        raise LookupError("a bug of the old cluster")


class SecuredCluster(Run):
    """Three nodes with SASL and ACLs: a consumer group, refused clients, nodes that stop."""

    settings = Settings(
        listen=SASL_LISTENER,
        brokers=3,
        topics={"orders": 3},
        users=[User("alice", "secret"), User("bob", "secret")],
        config={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:alice",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
        },
    )
    start_ms = 1_900_000_000_000
    seed = 2
    level = Level.INFO

    async def _login(self, user: str, node: int = 0) -> Client:
        client = await self.client(node)
        await self.ask(client, SaslHandshakeRequest(mechanism="PLAIN"), 1)
        token = f"\0{user}\0secret".encode()
        await self.ask(client, SaslAuthenticateRequest(auth_bytes=token), 2)
        return client

    async def work(self) -> AsyncIterator[None]:
        clients = [await self._login("alice", node) for node in range(3)]
        unprivileged = await self._login("bob")
        yield
        metadata = await self.ask(clients[0], MetadataRequest(topics=None), 12)
        (leader,) = (
            each.leader_id for each in metadata.topics[0].partitions if each.partition_index == 0
        )
        yield
        await self.ask(clients[leader - 1], produce(0, b"new", b"newer"), 9)
        refused = await self.ask(unprivileged, produce(0, b"bad"), 9)
        (answer,) = refused.responses[0].partition_responses
        assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        yield
        await self.ask(clients[leader - 1], fetch(0), 12)
        await self.ask(clients[0], InitProducerIdRequest(transaction_timeout_ms=1000), 4)
        found = await self.ask(clients[0], FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        coordinator = clients[found.coordinators[0].node_id - 1]
        yield
        joining = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="member",
            member_epoch=0,
            rebalance_timeout_ms=5000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        joined = await self.ask(coordinator, joining, 1)
        yield
        offset = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1
        )
        commit = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=joined.member_epoch,
            member_id="member",
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(name="orders", partitions=[offset])
            ],
        )
        await self.ask(coordinator, commit, 9)
        yield
        other = next(node for node in (1, 2, 3) if node != found.coordinators[0].node_id)
        await self.order(ChangeNode(other, state="stopped"))
        yield
        await self.ask(coordinator, MetadataRequest(topics=None), 12)
        await self.order(ChangeClock(advance_ms=10_000))
        yield
        await self.order(ChangeNode(other, state="running"))
        for _ in range(8):
            heartbeat = ConsumerGroupHeartbeatRequest(
                group_id="g", member_id="member", member_epoch=joined.member_epoch
            )
            await self.ask(coordinator, heartbeat, 1)
            yield
        for client in (*clients, unprivileged):
            await client.close()


async def test_a_cluster_does_the_same_alone_and_together_with_another(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    errors: list[object] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))
    alone = []
    for kind in (OldCluster, SecuredCluster):
        run = kind(tmp_path / "alone")
        async for _ in run.steps():
            pass
        alone.append(run.notes)
    together: list[Run] = [OldCluster(tmp_path / "together"), SecuredCluster(tmp_path / "together")]
    remaining = [each.steps() for each in together]
    while remaining:
        for steps in tuple(remaining):
            if await anext(steps, "end") == "end":
                remaining.remove(steps)
    for each, notes in zip(together, alone, strict=True):
        assert len(notes) > 30
        assert each.notes == notes
    old, secured = ("\n".join(each.notes) for each in together)
    assert "a bug of the old cluster" in old
    assert "a bug of the old cluster" not in secured
    assert errors == []
