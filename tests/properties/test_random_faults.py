"""Random faults and links come and go while real clients work; then the cluster is as before.

`KAFKALITE_RULES` is the number of rules, and `KAFKALITE_SEED` the first seed.
"""

from __future__ import annotations

import ctypes
import gc
import io
import os
import random
import sys
import time
from collections import Counter
from contextlib import redirect_stderr, suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Consumer, Producer

from kafkalite.gateway.fault_rules import rule_to_json
from kafkalite.testing import Broker
from kafkalite.testing.links import DisturbedLink
from tests.properties.disturbed_clients import (
    APIS,
    GROUPS,
    PARTITIONS,
    SOMETIMES,
    TOPICS,
    TRANSACTIONAL_ID,
    DisturbedClients,
)
from tests.properties.invariants import check_invariants, wait_until_idle
from tests.properties.random_rules import Names, RandomRules, fields_without_values

if TYPE_CHECKING:
    from kafkalite.testing.faults import InjectedFault

pytestmark = pytest.mark.endurance

RULES: Final = int(os.environ.get("KAFKALITE_RULES", "300"))
SEED: Final = int(os.environ.get("KAFKALITE_SEED", "0"))

_MAX_RULES: Final = 8
"""Rules at a time; with more, hardly any request is answered."""
_LINKS: Final = 0.15
"""The part of the rules that are links."""
_TURNS_S: Final = (0.001, 0.005, 0.01, 0.02)
"""How long the clients work until the next rule is installed."""
_PARTS: Final = 2
"""The memory after each part is compared with that after the first, which fills caches."""
_PERMITTED_GROWTH: Final = 1.1
_TIMEOUT_S: Final = 20
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

NAMES: Final = Names(
    apis=APIS,
    client_ids=("librdkafka-*", "aiokafka-*", "*producer", "librdkafka-admin", "broker-*", "*"),
    software=("librdkafka *", "*python*", "aiokafka*", "*"),
    groups=(*GROUPS, "unknown"),
    members=("unknown",),
    topics=(*TOPICS, SOMETIMES, "__consumer_offsets", "nothing"),
    transactional_ids=(TRANSACTIONAL_ID, "unknown"),
)

CONFIG: Final[dict[str, str | float]] = {
    "default.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "share.coordinator.state.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.share.heartbeat.interval.ms": 50,
    "group.share.min.heartbeat.interval.ms": 50,
    "replica.lag.time.max.ms": 500,
    "request.timeout.ms": 1_000,
}


def test_every_field_of_a_rule_is_drawn() -> None:
    assert fields_without_values() == set()


class RulesInTurns:
    """Installs random rules, and removes them in a random order."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self._broker = broker
        self._random = random.Random(seed)  # noqa: S311 - reproducible
        self._rules = RandomRules(self._random, NAMES)
        self._installed: list[InjectedFault | DisturbedLink] = []
        self.refused = 0
        """The number of rules that have no sense, or do not fit the cluster."""
        self.fired: Counter[str] = Counter()
        """Field of an action → the number of faults with it that have fired."""

    def run(self, count: int, clients: DisturbedClients) -> None:
        """Install rules and remove earlier ones, while the clients work."""
        for _ in range(count):
            self._installed.append(self._install())
            while len(self._installed) > self._random.randrange(1, _MAX_RULES + 1):
                self._remove(self._random.randrange(len(self._installed)))
            clients.work_for(self._random.choice(_TURNS_S))
        while self._installed:
            self._remove(0)

    def _install(self) -> InjectedFault | DisturbedLink:
        """Install the next rule; one that is refused is drawn again."""
        while True:
            try:
                if self._random.random() < _LINKS:
                    return self._broker.links._disturb(**self._rules.link())
                return self._broker.faults.add(**self._rules.fault())
            except ValueError:
                self.refused += 1

    def _remove(self, position: int) -> None:
        rule = self._installed.pop(position)
        if isinstance(rule, DisturbedLink):
            rule.heal()
            return
        rule.remove()
        if rule.firings:
            self.fired.update(list(rule_to_json(rule.rule)["action"]))


def resident_bytes() -> int:
    """Return the memory of the process, without what its allocators could give back."""
    gc.collect()
    with suppress(AttributeError):  # another C library has no such function
        ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def assert_serves(broker: Broker) -> None:
    """Write a record to each partition and read it, with new clients."""
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer(settings)
    for topic, index in product(TOPICS, range(PARTITIONS)):
        producer.produce(topic, b"last", partition=index)
    assert producer.flush(10) == 0
    consumer = Consumer({**settings, "group.id": "last", "auto.offset.reset": "earliest"})
    consumer.subscribe([*TOPICS])
    pending = set(product(TOPICS, range(PARTITIONS)))
    deadline = time.monotonic() + _TIMEOUT_S
    while pending:
        assert time.monotonic() < deadline, pending
        message = consumer.poll(1)
        if message is not None and message.value() == b"last":
            pending.discard((message.topic(), message.partition()))
    consumer.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory from /proc")
def test_nothing_is_left_of_random_faults(caplog: pytest.LogCaptureFixture) -> None:
    lines = io.StringIO()
    with (
        redirect_stderr(lines),
        Broker(
            brokers=3,
            topics=dict.fromkeys(TOPICS, PARTITIONS),
            config=CONFIG,
            seed=SEED,
            log_level="error",
        ) as broker,
    ):
        sizes, summary = [], []
        for part in range(_PARTS):
            clients = DisturbedClients(broker.bootstrap_servers)
            rules = RulesInTurns(broker, SEED * _PARTS + part)
            try:
                rules.run(RULES // _PARTS, clients)
            finally:
                broker.faults.clear()
                broker.links.heal()
                clients.close()
            wait_until_idle(broker)
            sizes.append(resident_bytes())
            summary.append(
                f"{rules.refused} refused, fired {dict(rules.fired)}, "
                f"completed {dict(clients.completed)}, failed {dict(clients.failures)}, "
                f"{sizes[-1] >> 20} MiB"
            )
        assert_serves(broker)
        wait_until_idle(broker)
        check_invariants(broker)
    sys.stdout.write("\n".join([*summary, ""]))
    assert lines.getvalue() == ""  # a line is a bug
    assert not [each for each in caplog.records if each.name == "asyncio"]
    assert sizes[-1] <= sizes[0] * _PERMITTED_GROWTH
