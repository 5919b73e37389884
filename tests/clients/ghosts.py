"""Ghosts: requests that take effect after their client has given them up and sent them again.

Each scenario returns what happens to a client: EXPOSED, SAFE or STOPS.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafkalite.config.releases import DEFAULT
from kafkalite.testing import Broker
from tests.clients.holding_proxy import HoldingProxy
from tests.clients.observer import committed_offsets, wait_until
from tests.clients.process import ClientError
from tests.clients.readers import read_by_librdkafka
from tests.oracle.real_kafka import RealKafka
from tests.oracle.releases import LATEST_PATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkalite.gateway.fault_rules import FaultFields
    from tests.clients.process import DriverProcess
    from tests.clients.transactional_producers import TransactionalProducers

EXPOSED, SAFE, STOPS = "exposed", "safe", "stops"
_TIMEOUT_S = 30.0
_UNCHANGED_S = 1.0
_REQUEST_TIMEOUT_MS = 1_000
_POLL_S = 0.02
_EARLIER_COMMITS = 1
_IDLE_S = 0.5
_LATE_OFFSET = _EARLIER_COMMITS + 1
_ATTEMPTS = 3
_END = "end"
# The consumer protocol was a preview that had to be enabled.
_PREVIEWS = {"3.9": {"group.coordinator.rebalance.protocols": "classic,consumer"}}


class Ghost(Protocol):
    """A request that the broker gets later."""

    def wait(self) -> None:
        """Wait until its client has lost the connection."""

    def release(self) -> None:
        """Let the broker handle it."""


class GhostBroker(Protocol):
    """A broker that can hold a request."""

    @property
    def bootstrap_servers(self) -> str:
        """Return the address for clients."""

    def hold(self, api: str, *, disconnects: bool) -> Ghost:
        """Hold the next request of an API, and close its connection at once or never."""


class EmulatedBroker:
    """kafkalite with the fault that holds a request."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.bootstrap_servers = broker.bootstrap_servers

    def hold(self, api: str, *, disconnects: bool) -> Ghost:
        """See `GhostBroker`."""
        fields: FaultFields = {"api": api, "nth": 1, "hold": True, "late": True}
        if disconnects:
            fields["disconnect"] = True
        return self._broker.faults.add(**fields)


class ProxiedKafka:
    """A real Kafka behind a proxy that holds a request."""

    def __init__(self, proxy: HoldingProxy) -> None:
        self._proxy = proxy
        self.bootstrap_servers = proxy.bootstrap

    def hold(self, api: str, *, disconnects: bool) -> Ghost:
        """See `GhostBroker`."""
        return self._proxy.hold(api, disconnects=disconnects)


@contextmanager
def emulated_broker(release: str) -> Iterator[GhostBroker]:
    """Run kafkalite as a release."""
    with Broker(as_version=release, config=_config(release), log_level="error") as broker:
        yield EmulatedBroker(broker)


@contextmanager
def proxied_kafka(release: str, directory: Path) -> Iterator[GhostBroker]:
    """Run a release of Kafka behind a proxy; raises MissingProgramError or UnavailableError."""
    with HoldingProxy() as proxy:
        address = {"advertised.listeners": f"PLAINTEXT://{proxy.bootstrap}"}
        version = None if release == DEFAULT else LATEST_PATCH[release]
        kafka = RealKafka(directory, {**_config(release), **address}, release=version)
        try:
            kafka.start()
            proxy.serve(kafka.port)
            yield ProxiedKafka(proxy)
        finally:
            kafka.kill()


def _config(release: str) -> dict[str, str]:
    """Return the settings of both brokers."""
    return {
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        **_PREVIEWS.get(release, {}),
    }


def late_end_of_transaction(
    broker: GhostBroker, producers: TransactionalProducers, topic: str, *, disconnects: bool
) -> str:
    """KAFKA-17754: EXPOSED if a late EndTxn commits the next transaction of its producer.

    The client loses its connection, or waits until a short timeout.

    STOPS if the client can neither commit nor abort after it has lost the request.
    """
    _create_topic(broker, topic)
    producers.init(topic, topic, _REQUEST_TIMEOUT_MS)
    producers.begin(topic)
    producers.send(topic, topic, "first")
    ghost = broker.hold("EndTxn", disconnects=disconnects)
    if not (_succeeds(producers.commit, topic) or _succeeds(producers.abort, topic)):
        return STOPS
    ghost.wait()
    producers.begin(topic)
    producers.send(topic, topic, "second")
    ghost.release()
    _succeeds(producers.abort, topic)
    # Readers of committed records get this one when no transaction before it is open.
    _produce(broker, topic, _END)
    wait_until(lambda: _END in _read(broker, topic), "the second transaction is complete")
    return EXPOSED if "second" in _read(broker, topic) else SAFE


def late_commit(broker: GhostBroker, driver: DriverProcess, topic: str, protocol: str) -> str:
    """Return EXPOSED if a late OffsetCommit rewinds the group of its consumer.

    Some clients join again in some of the runs, and the broker refuses a commit of the earlier
    generation. SAFE if no run of several rewinds the group. STOPS if the consumer cannot commit
    after it has lost the request.
    """
    outcome = SAFE
    for attempt in range(_ATTEMPTS):
        outcome = _late_commit(broker, driver, f"{topic}-{attempt}", protocol)
        if outcome != SAFE:
            break
    return outcome


def _late_commit(broker: GhostBroker, driver: DriverProcess, topic: str, protocol: str) -> str:
    _create_topic(broker, topic)
    driver.join(topic, topic, topic, protocol)
    try:
        for end in range(1, _EARLIER_COMMITS + 1):
            assert _commits_next(broker, driver, topic, end)
        time.sleep(_IDLE_S)  # kafka-python completes its join in polls without records
        ghost = broker.hold("OffsetCommit", disconnects=True)
        if not _commits_next(broker, driver, topic, _LATE_OFFSET):
            return STOPS
        ghost.wait()
        assert _commits_next(broker, driver, topic, _LATE_OFFSET + 1)
        ghost.release()
        return EXPOSED if _is_rewound(broker, topic) else SAFE
    finally:
        driver.leave(topic)


def _succeeds(action: Callable[[str], None], name: str) -> bool:
    try:
        action(name)
    except ClientError:
        return False
    return True


def _commits_next(broker: GhostBroker, driver: DriverProcess, topic: str, end: int) -> bool:
    """Write the record before an offset, and wait until the only member has committed it.

    Returns False if the member fails instead.
    """
    _produce(broker, topic, str(end))
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        for kind, _member, detail in driver.events():
            if kind == "error":
                return False
            if kind == "commit" and detail == {0: end}:
                return True
        time.sleep(_POLL_S)
    return False


def _is_rewound(broker: GhostBroker, group: str) -> bool:
    deadline = time.monotonic() + _UNCHANGED_S
    while time.monotonic() < deadline:
        if committed_offsets(broker.bootstrap_servers, group, group) == {0: _LATE_OFFSET}:
            return True
        time.sleep(_POLL_S)
    return False


def _create_topic(broker: GhostBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(_TIMEOUT_S)


def _produce(broker: GhostBroker, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(_TIMEOUT_S) == 0


def _read(broker: GhostBroker, topic: str) -> list[str | None]:
    rows = read_by_librdkafka(broker.bootstrap_servers, topic, 1)
    return [value for _key, value in rows.get(0, [])]
