"""An exported state that is loaded and exported again is the same text, for random clusters."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkalite.cli.cluster_options import ClusterAccess
from kafkalite.cli.export import state_text_of
from kafkalite.client.access import PLAINTEXT
from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.config.typed_json import to_json
from kafkalite.control.declared_state.source import parse_state
from kafkalite.testing import Broker

CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "2",
}
NAMES = ("a", "b.c", "d_e", "Z-1")
ALL_RECORDS = 1_000


@pytest.mark.parametrize("seed", range(6))
async def test_a_round_trip_is_the_identity(seed: int) -> None:
    declared = random_state(random.Random(seed))  # noqa: S311 - not for security
    as_json = seed % 2 == 1
    shape, records = await exported(declared, as_json=as_json)
    for text in (shape, records):
        again = parse_state(text, "s.json" if as_json else "s.yaml")
        found = await exported(to_json(again.state), as_json=as_json)
        assert found[0] == shape
        assert found[1] == records or text == shape


async def exported(state: dict[str, Any], *, as_json: bool) -> list[str]:
    """Return the shape of a cluster with a state, and the same with records."""
    with Broker(state=state, storage="memory", config=CONFIG) as broker:
        addresses = bootstrap_addresses(broker.bootstrap_servers)
        async with KafkaClient(addresses) as client:
            return [
                await state_text_of(
                    client, ClusterAccess(addresses, PLAINTEXT), count=count, as_json=as_json
                )
                for count in (0, ALL_RECORDS)
            ]


def random_state(rng: random.Random) -> dict[str, Any]:
    brokers = rng.randint(1, 3)
    topics = {name: random_topic(rng, brokers) for name in rng.sample(NAMES, rng.randint(0, 4))}
    return {
        "brokers": brokers,
        "features": rng.choice([{}, {"transaction.version": 1}, {"metadata.version": 21}]),
        "topics": topics,
        "groups": random_groups(rng, topics),
        "acls": random_acls(rng),
        "users": {
            random_text(rng) or "u": {"mechanisms": {mechanism: rng.randint(4096, 4100)}}
            for mechanism in rng.sample(["SCRAM-SHA-256", "SCRAM-SHA-512"], rng.randint(0, 2))
        },
        "quotas": random_quotas(rng),
    }


def random_topic(rng: random.Random, brokers: int) -> dict[str, Any]:
    partitions = rng.randint(1, 3)
    offsets = dict.fromkeys(range(partitions), 0)
    records = []
    for _ in range(rng.choice([0, 1, 5, 20])):
        partition = rng.randrange(partitions)
        record = random_record(rng) | {"partition": partition}
        if rng.random() < 0.2:
            offsets[partition] += rng.randint(0, 2**40)
            record["offset"] = offsets[partition]
        offsets[partition] += 1
        records.append(record)
    config: dict[str, object] = {
        "retention.ms": rng.randint(-1, 2**40),
        "max.message.bytes": rng.randint(500, 10**6),
    }
    if rng.random() < 0.5:
        config["message.timestamp.type"] = "LogAppendTime"
    return {
        "partitions": partitions,
        "replication_factor": rng.randint(1, brokers),
        "config": dict(rng.sample(sorted(config.items()), rng.randint(0, len(config)))),
        "records": records,
        "end_offsets": {
            f"{partition}": end + rng.choice([0, 0, 3, 2**50])
            for partition, end in offsets.items()
            if rng.random() < 0.5
        },
    }


def random_record(rng: random.Random) -> dict[str, Any]:
    forms = ("value", "value_hex", "value_json", "key", "key_hex")
    contents = {
        "value": random_text(rng),
        "value_hex": rng.randbytes(rng.randint(0, 20)).hex(),
        "value_json": {random_text(rng): [rng.random(), None, True]},
        "key": random_text(rng),
        "key_hex": rng.randbytes(3).hex(),
    }
    chosen = {rng.choice(forms[:3]), rng.choice(forms[3:])} - {rng.choice((*forms, ""))}
    headers = [
        {"key": random_text(rng), rng.choice(["value_hex", "value"]): "6162"}
        for _ in range(rng.choice([0, 0, 1, 3]))
    ]
    return {form: contents[form] for form in sorted(chosen)} | {
        "headers": headers,
        "timestamp": rng.choice([-1, 0, 1_772_366_400_123, 2**60, rng.randrange(2**42)]),
    }


def random_text(rng: random.Random) -> str:
    characters = "aZ09 :#'\"-\n\t\\{}[],&*!|>%@`~\u00e4\u2028\u0085\U0001f600\x7f\x00"
    return "".join(rng.choices(characters[:-1], k=rng.randint(0, 8)))


def random_groups(rng: random.Random, topics: dict[str, Any]) -> dict[str, Any]:
    return {
        f"group {number}": {
            "offsets": {
                name: {f"{rng.randrange(topic['partitions'])}": rng.randrange(2**40)}
                for name, topic in topics.items()
            },
            "metadata": {},
        }
        for number in range(rng.randint(0, 3))
    }


def random_acls(rng: random.Random) -> list[dict[str, str]]:
    return [
        {
            "principal": f"User:{rng.choice(NAMES)}",
            "operation": rng.choice(["READ", "ALL", "DESCRIBE"]),
            "resource_type": rng.choice(["TOPIC", "GROUP"]),
            "resource_name": rng.choice([*NAMES, "*"]),
            "pattern_type": rng.choice(["LITERAL", "PREFIXED"]),
            "host": rng.choice(["*", "10.0.0.1"]),
            "permission": rng.choice(["ALLOW", "DENY"]),
        }
        for _ in range(rng.randint(0, 4))
    ]


def random_quotas(rng: random.Random) -> list[dict[str, Any]]:
    entities: list[dict[str, str]] = [
        {"user": "<default>"},
        {"user": "a", "client_id": "<default>"},
        {"client_id": random_text(rng) or "c"},
    ]
    return [
        {**entity, "quotas": {"producer_byte_rate": rng.randint(1, 10**9), "request_percentage": 5}}
        for entity in rng.sample(entities, rng.randint(0, 3))
    ]
