"""The cost of ACLs: heartbeats and commits of a broker with an authorizer and of one without.

Both brokers run in the same rounds, in turns, so that the ratio does not depend on other work of
the machine. Run: `python -m tests.perf.authorization`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.create_acls import CreateAclsRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from tests.conformance.raw import RawClient
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.perf import groups_commits, heartbeats
from tests.perf.pipeline import frame, pump

_ROUNDS: Final = 5
_SECONDS: Final = 0.5
_CHUNK: Final = 500
_OTHER_ACLS: Final = 1_000
_TOPIC, _GROUP, _LITERAL, _PREFIXED, _ALL, _ALLOW, _DENY = 2, 3, 3, 4, 2, 3, 2

AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "allow.everyone.if.no.acl.found": "true",
}


def create_acls(port: int) -> None:
    """Allow everything on topics and groups, and add ACLs of other principals."""
    client = RawClient(port)
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=kind, resource_name="*", resource_pattern_type=_LITERAL,
            principal="User:ANONYMOUS", host="*", operation=_ALL, permission_type=_ALLOW,
        )
        for kind in (_TOPIC, _GROUP)
    ]  # fmt: skip
    creations += [
        CreateAclsRequest.AclCreation(
            resource_type=_TOPIC, resource_name=f"other-{number}",
            resource_pattern_type=_PREFIXED, principal=f"User:{number}", host="*",
            operation=_ALL, permission_type=_DENY,
        )
        for number in range(_OTHER_ACLS)
    ]  # fmt: skip
    response = client.call(CreateAclsRequest(creations=creations), 3)
    assert not any(each.error_code for each in response.results)
    client.close()


def requests_of_members(port: int) -> dict[str, list[bytes]]:
    """Join groups, and return the requests to measure by name."""
    classic = heartbeats.join(port, "classic")
    consumer = heartbeats.join_consumer_group(port, "consumer", groups_commits.TOPIC)
    return {
        "heartbeats of classic groups": [
            frame(
                HeartbeatRequest(
                    group_id="classic", generation_id=classic.epoch, member_id=classic.member_id
                ),
                4,
            )
        ]
        * _CHUNK,
        "heartbeats of consumer groups": [
            frame(
                ConsumerGroupHeartbeatRequest(
                    group_id="consumer", member_epoch=consumer.epoch, member_id=consumer.member_id
                ),
                1,
            )
        ]
        * _CHUNK,
        "commits of classic groups": _commits("classic", classic),
        "commits of consumer groups": _commits("consumer", consumer),
    }


def _commits(group_id: str, membership: heartbeats.Membership) -> list[bytes]:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    return [
        frame(
            OffsetCommitRequest(
                group_id=group_id,
                generation_id_or_member_epoch=membership.epoch,
                member_id=membership.member_id,
                topics=[
                    topic(
                        name=groups_commits.TOPIC,
                        partitions=[partition(partition_index=0, committed_offset=offset)],
                    )
                ],
            ),
            9,
        )
        for offset in range(_CHUNK)
    ]


def ratios(directory: Path) -> dict[str, float]:
    """Return the median throughput per CPU second with ACLs, relative to that without."""
    plain = ServedKafkalite(directory / "plain", {})
    secured = ServedKafkalite(directory / "secured", AUTHORIZER)
    found: dict[str, list[float]] = {}
    requests = {}
    try:
        for broker in (plain, secured):
            broker.start()
            groups_commits.create_topic(broker.port)
            if broker is secured:
                create_acls(broker.port)
            requests[broker] = requests_of_members(broker.port)
        for turn in range(_ROUNDS):
            for name in requests[plain]:
                rates = {
                    broker: pump(broker.port, broker.pid, requests[broker][name], _SECONDS)
                    for broker in ((plain, secured) if turn % 2 else (secured, plain))
                }
                ratio = rates[secured].per_cpu_second / rates[plain].per_cpu_second
                found.setdefault(name, []).append(ratio)
    finally:
        plain.kill()
        secured.kill()
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    """Print the ratio of each measurement."""
    with tempfile.TemporaryDirectory() as directory:
        for name, ratio in ratios(Path(directory)).items():
            sys.stdout.write(f"{name}: {ratio:.3f}\n")


if __name__ == "__main__":
    main()
