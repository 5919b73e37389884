"""The cost of ACLs: heartbeats and commits of a broker with an authorizer and of two without.

The brokers run in the same rounds, in turns, so that the ratios do not depend on other work of the
machine. The ratio of the two brokers without authorizer shows how exact the measurement is. Run:
`python -m tests.perf.authorization [--rounds N] [--seconds S] [--option "--request-log=10000"]`,
which measures an option of `kafkalite serve` in place of the authorizer.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

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

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class Ratios(NamedTuple):
    """Requests per second of processor time, relative to brokers without authorizer."""

    secured: float
    """With an authorizer, relative to the mean of both brokers without."""
    plain: float
    """One broker without an authorizer, relative to the other; exactly measured, it is 1."""


def ratios(
    directory: Path, rounds: int, seconds: float, *, option: Sequence[str] = ()
) -> dict[str, Ratios]:
    """Return the median ratios of each measurement.

    With `option`, the broker with an authorizer has this option of `kafkalite serve` in its place.
    """
    reference = ServedKafkalite(directory / "reference", {})
    plain = ServedKafkalite(directory / "plain", {})
    secured = ServedKafkalite(
        directory / "secured", {} if option else AUTHORIZER, options=tuple(option)
    )
    brokers = [reference, plain, secured]
    found: dict[str, list[Ratios]] = {}
    requests = {}
    try:
        for broker in brokers:
            broker.start()
            groups_commits.create_topic(broker.port)
            if broker is secured and not option:
                create_acls(broker.port)
            requests[broker] = requests_of_members(broker.port)
        for turn in range(rounds):
            first = turn % len(brokers)
            for name in requests[reference]:
                rates = {
                    broker: pump(broker.port, broker.pid, requests[broker][name], seconds)
                    for broker in (*brokers[first:], *brokers[:first])
                }
                with_acls, *without = (
                    rates[broker].per_cpu_second for broker in (secured, plain, reference)
                )
                ratio = Ratios(with_acls / statistics.mean(without), without[0] / without[1])
                found.setdefault(name, []).append(ratio)
    finally:
        for broker in brokers:
            broker.kill()
    return {
        name: Ratios(*map(statistics.median, zip(*values, strict=True)))
        for name, values in found.items()
    }


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--option", default="")
    options = parser.parse_args()
    changed = options.option or "ACLs"
    sys.stdout.write(f"| | with {changed} / without | without / without |\n| --- | ---: | ---: |\n")
    with tempfile.TemporaryDirectory() as directory:
        measured = ratios(
            Path(directory), options.rounds, options.seconds, option=options.option.split()
        )
    for name, (secured, plain) in measured.items():
        sys.stdout.write(f"| {name} | {secured:.3f} | {plain:.3f} |\n")


if __name__ == "__main__":
    main()
