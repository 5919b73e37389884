"""Regular traffic: clients of a simulated cluster that make no mistakes, in a random order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.shares.acknowledgement import AcknowledgeType
from tests.unit.lab.checker.share_simulation import SimulatedShareGroup
from tests.unit.lab.checker.simulation import TestProducer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tests.unit.lab.checker.simulation import SimulatedCluster

_GROUPS: Final = ("shop", "mail")
_PARTITIONS: Final = 2
_WATCHED: Final = 2
"""A partition that no group reads."""


def run_regular_traffic(cluster: SimulatedCluster, random: Random, steps: int) -> None:
    """Let producers and consumers take turns, at most `steps` times each."""
    clients = [
        _produce(cluster, random, steps),
        _transact(cluster, random, steps),
        _retry(cluster, random, steps),
        _share(cluster, random, steps),
        _watch(cluster, random, steps),
        *(_consume(cluster, random, group, steps) for group in _GROUPS),
    ]
    while clients:
        client = random.choice(clients)
        if next(client, None) is None:
            clients.remove(client)


def _produce(cluster: SimulatedCluster, random: Random, steps: int) -> Iterator[bool]:
    producer = TestProducer(cluster.peer("writer"))
    for _ in range(random.randint(1, steps)):
        cluster.produce(producer, random.randrange(_PARTITIONS), random.randint(1, 3))
        yield True


def _retry(cluster: SimulatedCluster, random: Random, steps: int) -> Iterator[bool]:
    # An idempotent producer loses answers; the broker recognises its retries.
    producer = cluster.producer(cluster.peer("retrying"))
    yield True
    for _ in range(random.randint(1, steps)):
        partition = random.randrange(_PARTITIONS)
        batch = cluster.batch(producer, partition, random.randint(1, 3))
        kind = random.randrange(3)
        if kind == 0:  # refused, and not in the log
            cluster.send(producer, partition, batch, None, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            yield True
        offset = cluster.append(partition, batch)
        if kind == 1:  # in the log, but the answer is lost
            cluster.send(producer, partition, batch, None, is_answered=False)
            producer.peer = cluster.reconnect(producer.peer)
            yield True
        cluster.send(producer, partition, batch, offset)
        yield True


def _transact(cluster: SimulatedCluster, random: Random, steps: int) -> Iterator[bool]:
    producer = cluster.producer(cluster.peer("transacting"), "payments")
    reader = cluster.peer("transacting reader", "t-1")
    yield True
    offset = 0
    for _ in range(random.randint(1, steps)):
        partitions = random.sample(range(_PARTITIONS), random.randint(1, _PARTITIONS))
        for partition in partitions:
            cluster.add_partition(producer, partition)
            yield True
            cluster.produce(producer, partition, random.randint(1, 3))
            yield True
        is_commit = random.random() < 0.6
        if random.random() < 0.5:
            offset = min(offset + is_commit, cluster.ends[0])
            cluster.commit(reader, "payments", 0, offset, producer=producer)
        cluster.end(producer, is_commit=is_commit)
        for partition in partitions:
            cluster.mark(producer, partition, is_commit=is_commit)
        yield True


def _consume(cluster: SimulatedCluster, random: Random, group: str, steps: int) -> Iterator[bool]:
    # Members of a group follow each other; each begins at the committed offset.
    for number in range(random.randint(1, 3)):
        peer = cluster.peer(f"{group} reader {number}", f"{group}-{number}")
        cluster.heartbeat(peer, group)
        partition = random.randrange(_PARTITIONS)
        position = max(0, cluster.fetch_offset(peer, group, partition))
        for _ in range(random.randint(1, steps)):
            position = cluster.fetch(peer, partition, position)
            yield True
            if random.random() < 0.7:
                cluster.commit(peer, group, partition, position)
                yield True


def _watch(cluster: SimulatedCluster, random: Random, steps: int) -> Iterator[bool]:
    # Another process without a group has the client id of a member, and reads what is new.
    producer = TestProducer(cluster.peer("watched writer"))
    for _ in range(random.randint(1, steps)):
        cluster.produce(producer, _WATCHED, random.randint(1, 3))
        peer, end = cluster.peer(f"{_GROUPS[0]} reader 0"), cluster.ends[_WATCHED]
        cluster.look_up(peer, _WATCHED, -1, end)
        yield True
        cluster.produce(producer, _WATCHED)
        cluster.fetch(peer, _WATCHED, end)
        yield True


def _share(cluster: SimulatedCluster, random: Random, steps: int) -> Iterator[bool]:
    # Two members take turns; what they do not acknowledge becomes available again.
    group = SimulatedShareGroup(cluster, "sharers", random.randrange(_PARTITIONS))
    members = [cluster.peer(f"sharer {number}", f"sharer {number}") for number in range(2)]
    for member in members:
        group.join(member)
        yield True
    for _ in range(random.randint(1, steps)):
        member = random.choice(members)
        offsets = group.fetch(member)
        yield True
        middle = random.randint(0, len(offsets))
        kind = random.choice((AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE))
        if offsets[:middle]:
            group.acknowledge(member, offsets[:middle], kind)
            yield True
        group.expire(offsets[middle:])
