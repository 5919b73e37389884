"""Broker: a cluster inside a test, on its own thread.

The cluster has its own event loop on that thread, also with `async with`. Tests may call
blocking clients such as librdkafka and kafka-python without blocking the cluster.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from concurrent.futures import CancelledError
from contextlib import suppress
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from kafkalite.config.options import (
    CLOCK,
    CLUSTERS,
    CONTROL_TLS,
    CONTROL_TOKEN,
    IN_MEMORY,
    MAX_NODE_ID,
    MAX_SEED,
    ON_DISK,
    PACE,
    STORAGE,
    parse_memory_size,
)
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.config.typed_json import check_types
from kafkalite.control.address import control_address
from kafkalite.control.commands.clock import new_clock
from kafkalite.control.served_broker import ControlOptions, ServedBroker
from kafkalite.coordinator.event_history import DEFAULT_EXPLAIN_ENTRIES
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.server.addresses import Address
from kafkalite.server.logging import Level, Log
from kafkalite.server.loop import new_event_loop
from kafkalite.server.settings import Settings, names_key_store
from kafkalite.testing.broker_clock import BrokerClock
from kafkalite.testing.checks import BrokerChecks
from kafkalite.testing.client_settings import (
    ClientAccess,
    client_context,
    client_settings,
)
from kafkalite.testing.data import BrokerData
from kafkalite.testing.identity_options import identity_options
from kafkalite.testing.incidents import BrokerIncidents
from kafkalite.testing.request_hooks import BrokerHooks
from kafkalite.testing.token_providers import OAuthLogin, token_login

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from concurrent.futures import Future
    from datetime import datetime
    from os import PathLike
    from types import TracebackType

    from kafkalite.capture.recording.recorder import Recorder
    from kafkalite.client.access import Login
    from kafkalite.client.fencing import FencingResult
    from kafkalite.control.command_table import Command
    from kafkalite.control.commands.client_metrics import ClientMetricsStatus
    from kafkalite.control.commands.leaders import LeaderStatus
    from kafkalite.control.commands.report import Report
    from kafkalite.control.scenario import Scenario
    from kafkalite.control.server import ControlServer
    from kafkalite.control.time_travel.bisection import FoundRecord
    from kafkalite.coordinator.event_history import Entry
    from kafkalite.identity.clients import OAuthClient
    from kafkalite.identity.provider import IdentityProvider
    from kafkalite.lab.replay.standin.preparation import Match, OnMiss
    from kafkalite.security.sasl.users import User
    from kafkalite.server.broker import Broker as ServerBroker
    from kafkalite.server.snapshot import Snapshot
    from kafkalite.telemetry.metrics import ClientMetrics
    from kafkalite.testing.faults import BrokerFaults
    from kafkalite.testing.identity import BrokerIdentity
    from kafkalite.testing.links import BrokerLinks
    from kafkalite.testing.nodes import BrokerNodes
    from kafkalite.testing.requests import BrokerRequests
    from kafkalite.testing.time_travel import BrokerAt

T = TypeVar("T")
N = TypeVar("N", int, int | None)

_SHUTDOWN_GRACE_S = 0.2
_SHARED_WITH_FORKS: Final = ("_log", "_loop", "_owner_pid", "_served", "_thread")
"""Attributes that a fork has in common with its source, or makes its own from."""


class Broker(BrokerData, BrokerIncidents, BrokerHooks, BrokerChecks):
    """A Kafka cluster for the duration of a `with` or `async with` block.

    It listens on 127.0.0.1. Its data is removed at the end unless `data_directory` is given. An
    exception that leaves the block gets a note with the text of `report()`.

    - `brokers`: number of nodes.
    - `topics`: topics to create, with their partition counts.
    - `config`: Kafka broker configurations, as text, numbers or booleans.
    - `node_config`: configurations of single nodes by node id, such as {2: {"broker.rack": "b"}}.
    - `controller_id`: id of a controller that is no broker, such as 3000; by default the running
      broker with the smallest id acts as controller.
    - `data_directory`: directory for the data, which is then available after the block.
    - `port`: port of the first node; each further node uses the next port. 0 selects free ports.
    - `security`: security protocol of the listener: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or
      "SASL_SSL". With "SSL" and "SASL_SSL", certificates are made in the data directory, unless
      `config` has a key store. With "SASL_PLAINTEXT" and "SASL_SSL", clients must authenticate.
      `client_config` has settings for clients.
    - `users`: passwords by user name. These users can authenticate by SCRAM-SHA-512, SCRAM-SHA-256
      and PLAIN.
    - `oidc`: True serves an identity provider on a free port; text is its `[HOST:]PORT`. Clients
      authenticate with its tokens, by "SASL_PLAINTEXT" unless `security` is "SASL_SSL". `identity`
      controls it.
    - `oidc_clients`: secrets by client id, for token requests; by default the client "kafkalite"
      has the secret "kafkalite-secret".
    - `log_level`: "debug", "info", "warning" or "error"; log lines go to stderr.
    - `clock`: "real", "manual" (stopped until advanced), "60x", or "auto" (moved while all clients
      wait, at most five times as fast as real time; "auto:60" sets the limit). "@TIME" after it, in
      ISO 8601, is its initial time. A restart in the same process continues the time.
    - `control`: True serves the control API over HTTP on a free port; text is its `[HOST:]PORT`.
    - `control_token`: bearer token that requests to the control API need: the token, "@FILE" or
      "auto" for a generated one, which other hosts than loopback ones have by default.
    - `control_tls`: "on" serves the control API over https, "off" over http. By default it has TLS
      if the listener has it.
    - `request_log`: number of requests that are logged from the start. By default the first use of
      `requests` begins to log the latest 10,000.
    - `seed`: number from which all random values follow, such as ids; by default they are different
      in each run.
    - `as_version`: release of Kafka to emulate, such as "3.9", or service, such as "redpanda".
    - `defaults`: "kafkalite" has defaults for tests, "kafka" has Kafka's own.
    - `capture`: directory in which all traffic is recorded, as pcapng files without secrets.
    - `replay`: capture file or directory; the broker answers as the recorded cluster.
    - `match`: rule to find the response to a request in the capture: "strict" by its position on a
      connection, "lenient" by its content. "seeded" loads topics, records and commits of the
      capture, and then answers live.
    - `on_miss`: for a request without a response in the capture, "fail" closes the connection and
      "live" lets the live broker answer.
    - `scenario`: YAML file with topics, settings, clock, seed, faults, links and expectations.
      Other arguments have precedence. The end of the block checks the expectations.
    - `state`: YAML or JSON file with topics, records, groups, ACLs, users and quotas, or a mapping
      with them. The data directory must be empty, or have this state from an earlier start.
    - `storage`: "disk", the default, or "memory": then the data is in no file, and a stop takes
      less than a millisecond. The fixtures of the pytest plugin use memory.
    - `memory_limit`: size such as "512m" that the data in memory may have; by default half of the
      memory of the machine or container.
    - `clusters`: "client-id" or "sni": the clusters of `cluster` use the ports of this one, and
      clients name theirs by the first part of their client id, or by the host name that they
      connect to. By default each has ports of its own.
    - `keep_history`: True does not compact internal topics, so that `at` and `bisect` know all
      earlier states of groups and transactional ids.
    - `pace`: "kafka" completes transactions, creates topics and finds coordinators as late as a
      real Kafka, by measured delays on the broker's clock; by default there is no delay.
    - `snapshot`: snapshot, or file of one, that the cluster begins with. Its data is in memory, and
      nodes, release, defaults, seed and clock are those of the snapshot.

    Raises ValueError for an unknown value, for `match` or `on_miss` without `replay`, and for
    `control_token` or `control_tls` without `control`.
    """

    _broker: ServerBroker | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _owner_pid = 0
    _thread: threading.Thread | None = None
    clock: BrokerClock
    """The time of the cluster: read it and control it."""
    _pending_calls: set[Future[Any]]
    """Results that other threads wait for."""
    _forks: set[Broker]
    _name = ""
    _snapshot: Snapshot | None = None
    """What the cluster begins with at each start."""
    _parent: ServerBroker | None = None
    """The broker in whose process this cluster has its name."""
    _siblings: set[Broker] | None = None
    """The forks of the broker that this one was forked from, and whose thread they use."""

    def __init__(
        self,
        brokers: int = 1,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str | float] | None = None,
        *,
        node_config: Mapping[int, Mapping[str, str | float]] | None = None,
        controller_id: int | None = None,
        data_directory: str | PathLike[str] | None = None,
        port: int = 0,
        security: str = "PLAINTEXT",
        users: Mapping[str, str] | Sequence[User] | None = None,
        oidc: bool | str = False,
        oidc_clients: Mapping[str, str] | Sequence[OAuthClient] | None = None,
        log_level: str = "warning",
        clock: str = "real",
        control: bool | str = False,
        control_token: str | None = None,
        control_tls: str | None = None,
        request_log: int | None = None,
        seed: int | None = None,
        as_version: str | None = None,
        defaults: str = "kafkalite",
        capture: str | PathLike[str] | None = None,
        replay: str | PathLike[str] | None = None,
        match: str = "strict",
        on_miss: str = "fail",
        scenario: str | PathLike[str] | None = None,
        state: str | PathLike[str] | Mapping[str, object] | None = None,
        storage: str | None = None,
        memory_limit: str | None = None,
        clusters: str | None = None,
        keep_history: bool = False,
        pace: str | None = None,
        snapshot: Snapshot | str | PathLike[str] | None = None,
    ) -> None:
        self._scenario = _scenario_of(scenario)
        given = Settings(
            **_listener_settings(_protocol_of(security, oidc), port, config or {}),
            **_checked(brokers, controller_id, request_log, seed, (clusters, pace)),
            **_contents(topics or {}, config or {}, node_config or {}),
            **_cluster_settings(as_version, defaults, users),
            **_storage_settings(data_directory, storage, memory_limit, keep_history),
        )
        self._settings, mode = _with_scenario(self._scenario, _with_state(given, state), clock)
        self._log, self._adjustable_clock = _log_of(log_level), new_clock(mode)
        self._begin_with(snapshot, storage, replay, has_clock=mode != str(CLOCK.default))
        self._capture, self._replay = _captures(capture, replay, match, on_miss)
        self._served = _served(self._log, (control, control_token, control_tls), oidc, oidc_clients)
        self.clock, self._pending_calls, self._forks = BrokerClock(self._perform), set(), set()

    def _begin_with(
        self,
        snapshot: Snapshot | str | PathLike[str] | None,
        storage: str | None,
        replay: object,
        *,
        has_clock: bool,
    ) -> None:
        """Begin with a snapshot; raises ValueError for one that cannot be read or used."""
        if snapshot is None:
            return
        from kafkalite.server import snapshot as snapshots  # noqa: PLC0415 - rarely used

        if replay is not None or storage == ON_DISK:
            other = "storage='disk'" if replay is None else "replay"
            raise ValueError(f"snapshot and {other} cannot be combined")
        own = snapshots.with_memory(snapshot, self._settings.memory_limit)
        self._settings = snapshots.start_settings(self._settings, own)
        self._snapshot = own
        if not has_clock:
            self._adjustable_clock = snapshots.clock_of(own)

    # A start is faster without the imports of these.

    @cached_property
    def faults(self) -> BrokerFaults:
        """Fault injection: delay, refuse or disconnect requests."""
        from kafkalite.testing.faults import BrokerFaults  # noqa: PLC0415

        return BrokerFaults(self._perform)

    @cached_property
    def identity(self) -> BrokerIdentity:
        """The identity provider: its clients, keys, tokens and failures; needs `oidc`."""
        from kafkalite.testing.identity import BrokerIdentity  # noqa: PLC0415

        return BrokerIdentity(self._perform)

    @cached_property
    def links(self) -> BrokerLinks:
        """The network: cut and slow the links of clients, and cut those between nodes."""
        from kafkalite.testing.links import BrokerLinks  # noqa: PLC0415

        return BrokerLinks(self._perform)

    @property
    def nodes(self) -> BrokerNodes:
        """The nodes by id, from 1 on: stop, start and isolate them."""
        from kafkalite.testing.nodes import BrokerNodes  # noqa: PLC0415

        return BrokerNodes(self._perform)

    @property
    def requests(self) -> BrokerRequests:
        """The requests of clients with their answers: list, wait for and expect them."""
        from kafkalite.testing.requests import BrokerRequests  # noqa: PLC0415

        return BrokerRequests(self._perform)

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap addresses for clients: `host:port,…`, one for each node."""
        return self._running_broker().bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self._running_broker().cluster_id

    @property
    def data_directory(self) -> str:
        """The path of the data directory; raises RuntimeError if the data is in memory."""
        broker = self._running_broker()
        if broker.is_in_memory:
            raise RuntimeError("the data is in memory: create the broker with storage='disk'")
        return broker.data_directory

    def data_files(self) -> dict[str, bytes]:
        """Return the contents of all data files by their paths in the data directory."""
        broker = self._running_broker()

        async def read() -> dict[str, bytes]:
            return dict(broker.data_files())

        return self._run_on_loop(read())

    @property
    def control_url(self) -> str:
        """The URL of the HTTP control endpoint; raises RuntimeError without `control`."""
        return self._running_control().url

    @property
    def control_token(self) -> str | None:
        """The token of the control endpoint, None without one; RuntimeError without `control`."""
        token = self._running_control().token
        return None if token is None else token.text

    @property
    def control_ca(self) -> str | None:
        """The file with the authority that clients of an https control endpoint trust.

        None if the broker has made no certificates. Raises RuntimeError without `control`.
        """
        self._running_control()
        files = self._running_broker().certificate_files
        return None if files is None else files.authority

    def _running_control(self) -> ControlServer:
        self._running_broker()
        control = self._served.control
        if control is None:
            raise RuntimeError("the broker has no control endpoint: create it with control=True")
        return control

    def client_config(self, library: str) -> dict[str, Any]:
        """Return the settings with which a client library connects to the cluster.

        `library` is "librdkafka", "java", "aiokafka", "kafka-python", "kafkajs" or "franz-go". The
        settings have the names of the library. They contain the certificates that the cluster has
        made, and the login of the first user; with `oidc`, of the first client of the identity
        provider. Those of kafkajs and franz-go contain only text, lists and mappings, so they can
        be passed as JSON. Raises ValueError for another library.
        """
        return client_settings(library, self._client_access())

    def _client_access(self) -> ClientAccess:
        broker = self._running_broker()
        files = broker.certificate_files
        protocol = SecurityProtocol[next(iter(broker.bootstrap_by_listener()))]
        user = next(iter(self._settings.users), None) if protocol.uses_sasl else None
        return ClientAccess(
            bootstrap_servers=broker.bootstrap_servers,
            protocol=protocol,
            login=None if user is None else _login_of(user),
            authority_file=None if files is None else files.authority,
            client_file=None if files is None else files.client,
            oauth=None if broker.identity is None else _oauth_login(broker.identity),
            client_id=self._client_id,
        )

    @property
    def _client_id(self) -> str | None:
        """The client id that names this cluster; None if none is needed."""
        parent = self._parent
        is_named = parent is not None and parent.settings.clusters == "client-id"
        return f"{self._name}/client" if is_named else None

    def explain(
        self,
        group: str | None = None,
        limit: int = DEFAULT_EXPLAIN_ENTRIES,
        *,
        transactional_id: str | None = None,
        topic: str | None = None,
        client: str | None = None,
        since: str | None = None,
        at: str | None = None,
    ) -> list[Entry]:
        """Return the history of a group, a transactional id, a topic or a client, or of all.

        A client is an address, such as "127.0.0.1". The result has the latest `limit` entries,
        oldest first. Each has a `kind`, such as "refused" or "rebalance", a `text`, and its
        `facts`. `since` selects those of the last "15m", or another duration, or from a time on,
        such as "2026-03-01T12:00:00Z". `at` selects the history as it was at an earlier point; see
        `fork`. Raises ValueError if more than one of the four is given.
        """
        from kafkalite.control.commands.explain import Explain  # noqa: PLC0415 - a fast start

        command = Explain(group, transactional_id, topic, client, limit, since, at)
        check_types(command)

        async def perform() -> list[Entry]:
            return list(command.entries(broker))

        broker = self._running_broker()
        return self._run_on_loop(perform())

    def at(self, when: int | str | datetime) -> BrokerAt:
        """Return the state of the cluster at a point in the past, read from its logs.

        `when` is a time, as datetime or in ISO 8601, a duration before now, such as "5m", or an
        offset of the log that has the group, the transactional id or the share partition that is
        asked about. Raises ValueError for another value, and for a time in the future.
        """
        from kafkalite.control.time_travel.logs import RunningLogs  # noqa: PLC0415 - rarely used
        from kafkalite.control.time_travel.points import point_of  # noqa: PLC0415
        from kafkalite.control.time_travel.view import PastView  # noqa: PLC0415
        from kafkalite.testing.time_travel import BrokerAt  # noqa: PLC0415

        cluster = self._running_broker().cluster
        assert cluster is not None
        logs = RunningLogs(cluster)
        return BrokerAt(PastView(logs, point_of(when, logs.now_ms)), self._call_on_loop)

    def bisect(self, until: str, *, after: str | None = None, last: bool = False) -> FoundRecord:
        """Return the record that made a condition true, such as "committed(shop, orders, 0) < 5".

        It is the first such record, or with `last` the last one. `after` is a time or an offset:
        earlier records do not count. Raises ValueError if no record made the condition true, and
        if the condition is invalid; the text has the position of the error.
        """
        from kafkalite.control.commands.bisect import Bisect  # noqa: PLC0415 - rarely used

        return self._perform(Bisect(until, after, last))

    def report(self, *, after_request: int = 0, after_entry: int = 0, limit: int = 20) -> Report:
        """Return what the broker saw: the latest requests and events, and hints about mistakes.

        The text of the result is what a failed test prints. It has requests if the broker has
        `request_log`, or after the first use of `requests`; only those after number
        `after_request`, and entries of `explain` after number `after_entry`, at most `limit` each.
        """
        from kafkalite.control.commands.report import ShowReport  # noqa: PLC0415 - rarely used

        return self._perform(ShowReport(after_request, after_entry, limit))

    def scenario_text(self) -> str:
        """Return YAML with the start, and the faults and links of now, for `scenario`."""
        from kafkalite.control.commands.scenario import ShowScenario  # noqa: PLC0415 - rarely used

        return self._perform(ShowScenario()).yaml

    def check_scenario(self) -> None:
        """Raise AssertionError if an expectation of the scenario is not met.

        The end of a block without an exception does the same.
        """
        from kafkalite.control.commands.scenario import CheckScenario  # noqa: PLC0415 - as above

        result = self._perform(CheckScenario())
        __tracebackhide__ = True
        if not result.met:
            raise AssertionError("\n".join(result.failures))

    def client_metrics(self, client_id: str | None = None) -> Sequence[ClientMetrics]:
        """Return the metrics that clients have pushed, of all or of those with this client id.

        The client that pushed last is at the end. Each has its `client`, with id, software and
        address, and its `metrics`; `find(name)` returns those with one name. Raises ValueError if
        clients are not offered to push metrics, and ModuleNotFoundError if the package that decodes
        them is not installed.
        """
        from kafkalite.control.commands.client_metrics import ShowClientMetrics  # noqa: PLC0415 - rarely used

        command = ShowClientMetrics(client_id)
        check_types(command)

        async def perform() -> ClientMetricsStatus:
            return command.status(broker)

        broker = self._running_broker()
        status = self._run_on_loop(perform())
        if status.problem is not None:
            raise ModuleNotFoundError(status.problem)
        return status.clients

    def move_leader(
        self, topic: str, partition: int, leader: int, *, unclean: bool = False
    ) -> LeaderStatus:
        """Make a node the leader of a partition, and return the partition's new state.

        Nothing changes if the node is the leader already. With `unclean`, a replica that is not in
        sync can become the leader; the records that it does not have are lost. When this returns,
        the waiting answers that the change ended have been sent. Raises ValueError, with one
        sentence, if the node cannot lead the partition.
        """
        from kafkalite.control.commands.leaders import MoveLeader  # noqa: PLC0415 - rarely used

        return self._perform(MoveLeader(topic, partition, leader, unclean))

    def fence_producers(self, *transactional_ids: str) -> list[FencingResult]:
        """Fence the producers of these ids and abort their open transactions, as Java's Admin does.

        Each id has a new producer id or epoch when this returns. Raises RuntimeError if an id could
        not be fenced.
        """
        from kafkalite.client.access import Access  # noqa: PLC0415 - rarely used
        from kafkalite.client.fencing import fence_producers  # noqa: PLC0415 - as above

        invalid = [each for each in transactional_ids if not isinstance(each, str)]
        if invalid:
            raise ValueError(f"a transactional id must be text, not {invalid[0]!r}")
        addresses = [Address.parse(each) for each in self.bootstrap_servers.split(",")]
        own = self._client_access()
        login = own.login if own.oauth is None else token_login(own.oauth)
        access = Access(client_context(own), login)
        results = self._run_on_loop(fence_producers(addresses, transactional_ids, access=access))
        failed = [f"{each.transactional_id!r}: {each.error}" for each in results if each.error]
        if failed:
            raise RuntimeError(f"cannot fence {', '.join(failed)}")
        return results

    def snapshot(self, *, at: int | str | datetime | None = None) -> Snapshot:
        """Return the state of now, for `restore` and `fork`; it shares its data with the cluster.

        With `at`, it is the state of an earlier point; see `fork`.

        It has topics with records, groups, transactions, configurations, ACLs, quotas, users, the
        clock, faults, rules for links, and the random values of a seed. Data on disk is copied to
        memory. Raises ValueError, with one sentence, if data on disk is too large for the memory.
        """
        broker = self._running_broker()

        async def take() -> Snapshot:
            return broker.snapshot() if at is None else _snapshot_at(broker, at)

        return self._run_on_loop(take())

    def load_snapshot(self, path: str | PathLike[str]) -> Snapshot:
        """Return the snapshot in a file that `Snapshot.save` has written, for `restore` and `fork`.

        Its data counts to the memory of this broker. Raises ValueError, with the file and the
        position, for a file that is damaged, of another release, or too large.
        """
        from kafkalite.server.snapshot import Snapshot  # noqa: PLC0415 - rarely used

        return Snapshot.load(path, self._running_broker().memory)

    def restore(self, snapshot: Snapshot, *, disconnect: bool = False) -> None:
        """Continue from a snapshot that this broker has made, or the one that it was forked from.

        Clients stay connected, unless `disconnect`: members and producers get the answers that a
        Kafka with this state gives. Requests that wait are answered first, as at a stop. Raises
        ValueError for a snapshot of another cluster, and if the data of this broker is on disk.
        """
        _check_snapshot(snapshot)
        broker = self._running_broker()
        self._run_on_loop(broker.restore(snapshot, disconnects=disconnect))

    def fork(
        self, snapshot: Snapshot | None = None, *, at: int | str | datetime | None = None
    ) -> Broker:
        """Return another running cluster with the state of now, or that of a snapshot.

        With `at`, it is the state of an earlier point: a time, as datetime or in ISO 8601, a
        duration before now, such as "5m", or an offset of a log, such as "__consumer_offsets-7:42",
        whose record and all later ones are absent.

        It has own ports and is independent from then on; both share the data that neither changes.
        Use it in a `with` block, or stop it. It uses the thread of this broker and ends with it.
        Raises ValueError as `snapshot` does, and for a point whose state is not known.
        """
        if snapshot is not None and at is not None:
            raise TypeError("fork takes a snapshot or a point, not both")
        if snapshot is not None:
            _check_snapshot(snapshot)
        parent = self._running_broker()

        async def begin() -> Broker:
            own = snapshot
            if own is None:
                own = parent.snapshot() if at is None else _snapshot_at(parent, at)
            plan, _ = parent.clusters.plan(None, own)
            served = await self._served.start_fork(plan)
            return self._forked(served)

        return self._run_on_loop(begin())

    def cluster(
        self, name: str, snapshot: Snapshot | None = None, *, memory_limit: str | None = None
    ) -> Broker:
        """Return the running cluster with this name in this process, which is started if needed.

        It begins with the topics and users of this broker's start, or with a snapshot. Use it in a
        `with` block, or stop it; it ends with this broker. See the argument `clusters`. Its own
        data may have `memory_limit`, such as "64m", by default a quarter of the memory for all
        clusters. Raises ValueError for an invalid name or limit, and for a snapshot or a limit if
        the cluster runs.
        """
        if not isinstance(name, str):
            raise TypeError(f"the name of a cluster must be text, not {name!r:.80}")
        if snapshot is not None:
            _check_snapshot(snapshot)
        limit = None if memory_limit is None else parse_memory_size(memory_limit)
        parent = self._running_broker()

        async def open_cluster() -> Broker:
            clusters = parent.clusters
            if clusters.get(name) is None or snapshot is not None or limit is not None:
                await clusters.start(name, snapshot, limit)
            served = clusters.get(name)
            assert isinstance(served, ServedBroker)
            cluster = self._forked(served)
            cluster._name, cluster._parent = name, parent  # noqa: SLF001 - of this class
            return cluster

        return self._run_on_loop(open_cluster())

    def _forked(self, served: ServedBroker) -> Broker:
        """Return a running cluster in the process, and on the thread, of this one."""
        fork = copy(self)
        fork._begin(served)  # noqa: SLF001 - of this class
        return fork

    def _begin(self, served: ServedBroker) -> None:
        """Become another cluster, from a copy of its source."""
        broker = served.broker
        assert broker is not None
        siblings = self._forks
        shared = {name: self.__dict__[name] for name in _SHARED_WITH_FORKS}
        self.__dict__.clear()
        self.__dict__.update(shared)
        self._scenario = self._capture = self._replay = None
        self._settings = broker.settings
        self._served = served
        assert isinstance(broker.clock, AdjustableClock)
        self._adjustable_clock = broker.clock
        self.clock, self._pending_calls, self._forks = BrokerClock(self._perform), set(), set()
        self._broker = broker
        self._siblings = siblings
        siblings.add(self)

    def start(self) -> None:
        """Start the cluster; it accepts clients when this returns.

        Raises the exceptions of `kafkalite.server.broker.Broker.start`, and RuntimeError if the
        cluster is running already.
        """
        if self._thread is not None:
            raise RuntimeError("the broker is running already")
        if self._siblings is not None:
            raise RuntimeError("a fork cannot start again: fork its source again")
        self._loop = loop = new_event_loop(self._log)
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name="kafkalite", daemon=True
        )
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._start_broker(), loop).result()
        except BaseException:
            self._stop_loop()
            raise
        self._owner_pid = os.getpid()
        atexit.register(self._stop_at_exit)

    def stop(self) -> None:
        """Stop the cluster; does nothing if it is not running.

        A cluster that is still running at the end of the process is stopped then.
        """
        for fork in tuple(self._forks):
            fork.stop()
        atexit.unregister(self._stop_at_exit)
        broker, self._broker = self._broker, None
        loop = self._loop
        if broker is None or loop is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(self._stop_served(), loop).result()
        finally:
            self._stop_loop()

    async def _stop_served(self) -> None:
        name, parent = self._name, self._parent
        if parent is not None and parent.clusters.get(name) is self._served:
            parent.clusters.forget(name)
        await self._served.stop(_SHUTDOWN_GRACE_S)

    async def _start_broker(self) -> None:
        # The time continues; timers of the previous run are dropped.
        clock = self._adjustable_clock
        self._adjustable_clock = AdjustableClock(clock.rate, clock.now_ms(), clock.skip_rate)
        settings, prepare = self._settings_and_preparation()
        if self._scenario is not None:
            prepare = _both(prepare, self._scenario.install)
        capture = self._capture
        self._broker = await self._served.start(
            settings,
            self._adjustable_clock,
            start_recording=None if capture is None else lambda _: self._new_recorder(capture),
            prepare=prepare if self._snapshot is None else _both(prepare, _populate),
            snapshot=self._snapshot,
        )

    def _settings_and_preparation(self) -> tuple[Settings, Callable[[ServerBroker], None] | None]:
        """Return the settings of the broker, and a function that makes it replay a capture."""
        if self._replay is None:
            return self._settings, None
        # Imported here because few brokers replay a capture.
        from kafkalite.lab.replay.standin import preparation  # noqa: PLC0415

        capture = preparation.prepare_capture(
            [self._replay.path], self._replay.match, self._replay.on_miss, self._log
        )
        settings = self._settings._replace(
            brokers=max(self._settings.brokers, len(capture.nodes)),
            topics={**capture.topics, **self._settings.topics},
        )
        return settings, capture.prepare

    def start_recording(self, directory: str | PathLike[str]) -> None:
        """Record all traffic from now on in `directory`, as `capture` does from the start.

        The recording of a client that is connected already begins with the next request that it
        sends while none of its requests is being served. Raises RuntimeError if traffic is recorded
        already.
        """
        broker = self._running_broker()
        if (present := broker.nodes.recorder) is not None:
            raise RuntimeError(f"traffic is already recorded in {present.directory}")
        self._served.close_recorder()  # that of a recording that a command has stopped
        self._served.recorder = recorder = self._new_recorder(str(directory))

        async def start() -> None:
            broker.nodes.start_recording(recorder)

        try:
            self._run_on_loop(start())
        except BaseException:
            self._served.close_recorder()
            raise

    def stop_recording(self) -> None:
        """Stop what `start_recording` or `capture` began; the capture is then complete.

        Does nothing if traffic is not recorded, or if a command of the control API started that.
        """
        broker = self._running_broker()

        async def stop() -> None:
            if broker.nodes.recorder is self._served.recorder:
                broker.nodes.stop_recording()

        self._run_on_loop(stop())
        self._served.close_recorder()

    def _new_recorder(self, directory: str) -> Recorder:
        from kafkalite.capture.recording.recorder import Recorder  # noqa: PLC0415 - rarely used

        return Recorder(directory, self._adjustable_clock.now_ns, warn=self._log.error)

    def __enter__(self) -> Self:
        if self._siblings is None or self._broker is None:
            self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._add_report_to(error)
        __tracebackhide__ = True
        try:
            if error is None and self._scenario is not None and self._broker is not None:
                self.check_scenario()
        finally:
            self.stop()
        self._raise_error_of_hooks(error)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.__enter__)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, traceback)

    def _add_report_to(self, error: BaseException | None) -> None:
        """Add what the broker saw to the exception that leaves its block, for its traceback."""
        if isinstance(error, Exception) and self._broker is not None:
            with suppress(Exception):  # the exception is more important than the report
                report = self.report()
                if not report.is_empty:
                    error.add_note(f"What the broker saw\n{report}")

    def _stop_at_exit(self) -> None:
        # A forked process has this object but not its thread, so no call would return there.
        if self._owner_pid == os.getpid():
            self.stop()

    def _running_broker(self) -> ServerBroker:
        if self._broker is None:
            raise RuntimeError("the broker is not running: use it in a `with` block")
        return self._broker

    def _perform(self, command: Command[T], /) -> T:
        """Carry out a command on the broker's event loop, and wait for the answer.

        Raises ValueError for an argument of a wrong type, or outside of its limits.
        """
        check_types(command, limits=True)
        return self._run_on_loop(command.perform(self._running_broker()))

    def _call_on_loop(self, work: Callable[[], T]) -> T:
        async def call() -> T:
            return work()

        return self._run_on_loop(call())

    def _run_on_loop(self, work: Coroutine[None, None, T]) -> T:
        loop = self._loop
        if loop is None or threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError(
                "a call from the broker's own thread would wait forever: use another thread"
            )
        try:
            future = asyncio.run_coroutine_threadsafe(work, loop)
        except RuntimeError:  # another thread has closed the loop
            work.close()
            raise RuntimeError("the broker was stopped during the call") from None
        self._pending_calls.add(future)
        try:
            return future.result()
        except CancelledError:
            raise RuntimeError("the broker was stopped during the call") from None
        finally:
            self._pending_calls.discard(future)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.close()

    def _stop_loop(self) -> None:
        """Stop the loop and wait for its thread."""
        loop, thread, siblings = self._loop, self._thread, self._siblings
        self._broker = self._loop = self._thread = None
        if siblings is not None:
            siblings.discard(self)
        elif loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
        if loop is not None:
            for future in tuple(self._pending_calls):
                future.cancel()


def _snapshot_at(broker: ServerBroker, at: int | str | datetime) -> Snapshot:
    from kafkalite.control.time_travel.past_snapshot import snapshot_at  # noqa: PLC0415 - rarely used

    return snapshot_at(broker, at)


def _served(
    log: Log,
    control: tuple[bool | str, str | None, str | None],
    oidc: bool | str,  # noqa: FBT001 - as in Broker
    oidc_clients: Mapping[str, str] | Sequence[OAuthClient] | None,
) -> ServedBroker:
    """Return a broker with the address, token and TLS of its control API, and its provider."""
    return ServedBroker(log, _control_options(*control), identity_options(oidc, oidc_clients))


def _checked(
    brokers: int,
    controller_id: int | None,
    request_log: int | None,
    seed: int | None,
    choices: tuple[str | None, str | None],
) -> dict[str, Any]:
    """Return these settings; raises ValueError for invalid ones."""
    clusters, pace = choices
    return {
        "brokers": _checked_number("brokers", brokers),
        "controller_id": _checked_id(controller_id),
        "request_log": _checked_number("request_log", request_log),
        "seed": _checked_seed(seed),
        "clusters": _checked_choice("clusters", CLUSTERS.choices, clusters),
        "pace": _checked_choice("pace", PACE.choices, pace),
    }


def _checked_id(node_id: int | None) -> int | None:
    """Return the id of a controller; raises ValueError for an invalid one."""
    is_number = isinstance(node_id, int) and not isinstance(node_id, bool)
    if node_id is not None and not (is_number and 0 <= node_id <= MAX_NODE_ID):
        raise ValueError(f"controller_id must be a number from 0 to {MAX_NODE_ID}, not {node_id!r}")
    return node_id


def _checked_number(name: str, value: N) -> N:
    """Return a number or None; raises ValueError for another type, and for one below 1."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f"{name} must be a number from 1 on, not {value!r}")
    return value


def _scenario_of(path: str | PathLike[str] | None) -> Scenario | None:
    """Return the scenario of a file; raises ValueError for an invalid one."""
    if path is None:
        return None
    from kafkalite.control.scenario import read_scenario  # noqa: PLC0415 - rarely used

    return read_scenario(path)


def _with_state(
    settings: Settings, state: str | PathLike[str] | Mapping[str, object] | None
) -> Settings:
    """Return settings with a declared state; raises ValueError for an invalid one."""
    if state is None:
        return settings
    from kafkalite.control.declared_state.source import (  # noqa: PLC0415 - rarely used
        read_state,
        state_of_mapping,
        with_state,
    )

    is_path = isinstance(state, str) or hasattr(state, "__fspath__")
    located = read_state(state) if is_path else state_of_mapping(state)  # type: ignore[arg-type]
    return with_state(settings, located)


def _with_scenario(
    scenario: Scenario | None, settings: Settings, clock: str
) -> tuple[Settings, str]:
    """Return settings and clock with those of a scenario where they have the default."""
    if scenario is None:
        return settings, clock
    return scenario.settings(settings), scenario.clock_mode(clock)


def _both(
    first: Callable[[ServerBroker], None] | None, second: Callable[[ServerBroker], None]
) -> Callable[[ServerBroker], None]:
    """Return a function that calls both."""

    def prepare(broker: ServerBroker) -> None:
        if first is not None:
            first(broker)
        second(broker)

    return prepare


def _populate(broker: ServerBroker) -> None:
    broker.populate()


def _checked_seed(seed: int | None) -> int | None:
    """Return a seed or None; raises ValueError for an invalid one."""
    is_number = isinstance(seed, int) and not isinstance(seed, bool)
    if seed is not None and not (is_number and 0 <= seed <= MAX_SEED):
        raise ValueError(f"seed must be a number from 0 to {MAX_SEED}, not {seed!r}")
    return seed


def _control_options(
    control: bool | str,  # noqa: FBT001 - as in Broker
    token: str | None,
    tls: str | None,
) -> ControlOptions | None:
    """Return the options of the control API, None without it; raises ValueError."""
    for option, value in ((CONTROL_TOKEN, token), (CONTROL_TLS, tls)):
        if value is not None and control is False:
            raise ValueError(f"{option.dest} needs control")
    if control is False:
        return None
    if token is not None:
        assert CONTROL_TOKEN.parse is not None
        CONTROL_TOKEN.parse(token)
    if tls is not None and tls not in CONTROL_TLS.choices:
        raise ValueError(f"control_tls {tls!r} is not one of {', '.join(CONTROL_TLS.choices)}")
    return ControlOptions(control_address(control if isinstance(control, str) else "0"), token, tls)


def _log_of(level: str) -> Log:
    """Return the log with this level; raises ValueError for an unknown level."""
    if level.upper() not in Level.__members__:
        raise ValueError(f"log_level {level!r} is not one of {', '.join(Level.__members__)}")
    return Log(Level[level.upper()])


def _checked_choice(name: str, choices: Sequence[str], value: str | None) -> str | None:
    """Return the value of an argument; raises ValueError for an unknown value."""
    if value not in (None, *choices):
        raise ValueError(f"{name} {value!r} is not one of {', '.join(choices)}")
    return value


def _check_snapshot(snapshot: object) -> None:
    from kafkalite.server.snapshot import Snapshot  # noqa: PLC0415 - rarely used

    if not isinstance(snapshot, Snapshot):
        raise TypeError(
            f"{snapshot!r:.80} is not a Snapshot: Broker.load_snapshot(path) reads the file of one"
        )


def _storage_settings(
    directory: str | PathLike[str] | None,
    storage: str | None,
    memory_limit: str | None,
    keep_history: bool,  # noqa: FBT001 - as in Broker
) -> dict[str, Any]:
    """Return the settings of data on disk or in memory; raises ValueError for invalid ones."""
    data_directory, is_in_memory = _text_of_path(directory), storage == IN_MEMORY
    if storage not in (None, *STORAGE.choices):
        raise ValueError(f"storage {storage!r} is not one of {', '.join(STORAGE.choices)}")
    if is_in_memory and data_directory is not None:
        raise ValueError("storage='memory' and data_directory cannot be combined")
    common = {"is_in_memory": is_in_memory, "keeps_history": keep_history}
    if memory_limit is None:
        return common | {"data_directory": data_directory}
    if not is_in_memory:
        raise ValueError("memory_limit needs storage='memory'")
    if not isinstance(memory_limit, str):
        raise ValueError(f"memory_limit must be a size such as '512m', not {memory_limit!r}")  # noqa: TRY004 - as for other arguments
    return common | {"memory_limit": parse_memory_size(memory_limit)}


def _text_of_path(path: str | PathLike[str] | None) -> str | None:
    return None if path is None else str(path)


def _cluster_settings(
    as_version: str | None, defaults: str, users: Mapping[str, str] | Sequence[User] | None
) -> dict[str, Any]:
    """Return the settings of release, defaults and users; raises ValueError for invalid users."""
    return {"as_version": as_version, "defaults": defaults, "users": _users(users)}


def _users(users: Mapping[str, str] | Sequence[User] | None) -> Sequence[User]:
    """Return the users of an argument; raises ValueError for an invalid one."""
    if not users:
        return ()
    from kafkalite.security.sasl.users import users_of  # noqa: PLC0415 - rarely used

    return users_of(users)


def _protocol_of(security: str, oidc: bool | str) -> str:  # noqa: FBT001 - as in Broker
    """Return the security protocol of the listener: clients with tokens need SASL."""
    return "SASL_PLAINTEXT" if oidc is not False and security == "PLAINTEXT" else security


def partition_counts(topics: Mapping[str, int]) -> dict[str, int]:
    """Return the topics of an argument; raises ValueError for a list of names and the like."""
    if hasattr(topics, "items") and all(isinstance(count, int) for _, count in topics.items()):
        return dict(topics)
    raise ValueError(
        f"topics must have a number of partitions for each name, as in {{'orders': 1}}: {topics!r}"
    )


def _config_texts(config: Mapping[str, str | float]) -> dict[str, str]:
    if not hasattr(config, "items"):
        raise ValueError(f"config must have a value for each name, not be {config!r}")
    return {key: _config_text(value) for key, value in config.items()}


def _contents(
    topics: Mapping[str, int],
    config: Mapping[str, str | float],
    node_config: Mapping[int, Mapping[str, str | float]],
) -> dict[str, Any]:
    """Return topics and the settings of all nodes and of single ones; raises ValueError."""
    return {
        "topics": partition_counts(topics),
        "config": _config_texts(config),
        "node_config": _texts_by_node(node_config),
    }


def _texts_by_node(
    node_config: Mapping[int, Mapping[str, str | float]],
) -> dict[int, dict[str, str]]:
    return {node_id: _config_texts(values) for node_id, values in node_config.items()}


def _config_text(value: str | float) -> str:
    """Return the text of a setting in a properties file: Kafka's booleans are lower case."""
    return f"{value}".lower() if isinstance(value, bool) else f"{value}"


def _listener_settings(security: str, port: int, config: Iterable[str]) -> dict[str, Any]:
    """Return the settings of the listener; raises ValueError for an unknown security protocol."""
    if security not in SecurityProtocol.__members__:
        known = ", ".join(SecurityProtocol.__members__)
        raise ValueError(f"security {security!r} is not one of {known}")
    return {
        "listen": (f"{security}://127.0.0.1:{port}",),
        "tls": _tls_mode(security, config),
    }


def _tls_mode(security: str, config: Iterable[str]) -> str | None:
    """Return the mode of TLS: certificates are generated unless a setting names a key store."""
    if not SecurityProtocol[security].uses_tls or names_key_store(config) is not None:
        return None
    return "auto"


def _login_of(user: User) -> Login:
    """Return the login of a user by its first mechanism."""
    from kafkalite.client.access import Login  # noqa: PLC0415 - rarely used

    return Login(user.mechanisms[0], user.name, user.password)


def _oauth_login(provider: IdentityProvider) -> OAuthLogin | None:
    """Return the first client with a secret; None without one."""
    return next(
        (
            OAuthLogin(provider.token_endpoint, client.id, client.secret)
            for client in provider.clients
            if client.secret is not None
        ),
        None,
    )


def _captures(
    capture: str | PathLike[str] | None,
    replay: str | PathLike[str] | None,
    match: str,
    on_miss: str,
) -> tuple[str | None, _CaptureToReplay | None]:
    """Return the directory to record in and the capture to replay; raises ValueError."""
    return _text_of_path(capture), _capture_to_replay(replay, match, on_miss)


class _CaptureToReplay(NamedTuple):
    """A capture to replay, and how to match requests with it."""

    path: str
    match: Match
    on_miss: OnMiss


def _capture_to_replay(
    replay: str | PathLike[str] | None, match: str, on_miss: str
) -> _CaptureToReplay | None:
    """Return the capture to replay, if any; raises ValueError for invalid combinations."""
    if replay is None:
        for name, value, default in (("match", match, "strict"), ("on_miss", on_miss, "fail")):
            if value != default:
                raise ValueError(f"{name}={value!r} needs replay")
        return None
    from kafkalite.lab.replay.standin.preparation import Match, OnMiss  # noqa: PLC0415 - rarely used

    capture = _CaptureToReplay(str(replay), Match(match), OnMiss(on_miss))
    if capture.match is Match.SEEDED and capture.on_miss is not OnMiss.FAIL:
        raise ValueError(
            "on_miss cannot be combined with match='seeded', which answers every request"
        )
    return capture
