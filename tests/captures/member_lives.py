"""Records the lives of members on an Apache Kafka 4.4: `python -m tests.captures.member_lives`.

Every member of the capture does one thing: it processes a record for longer than its session
timeout or than `max.poll.interval.ms`, misses a rebalance, is killed, restarts, or pauses. All
sessions are short, so that the recording takes half a minute.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.captures.warm_up import warm_up
from tests.clients.client_libraries import java_classes
from tests.clients.served_proxy import ServedProxy
from tests.conformance.raw import RawClient
from tests.conformance.scenarios.classic_groups import Classic
from tests.conformance.scenarios.commits import commit
from tests.oracle.jars import java_command
from tests.oracle.real_kafka import RealKafka
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable

CAPTURE: Final = Path(__file__).parent / "kafka-4.4.0" / "member-lives.pcapng.gz"
TOPIC: Final = "orders"
SESSION_MS: Final = 4_000
"""The session timeout of every member."""

_PARTITIONS: Final = 4
_WORK_S: Final = 7.0
"""How long a record is processed: longer than a session."""
_BEAT_S: Final = 0.3
_JOIN, _JOIN_WITHOUT_AN_ID, _SYNC, _HEARTBEAT, _LEAVE, _COMMIT = 9, 3, 5, 4, 5, 8
_REBALANCE_MS: Final = 6_000

_CONFIG = {
    **COMMON_CONFIG,
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": str(SESSION_MS),
    "group.share.heartbeat.interval.ms": "500",
}
_CLASSIC = {
    "session.timeout.ms": str(SESSION_MS),
    "heartbeat.interval.ms": "300",
    "auto.offset.reset": "earliest",
}
_COOPERATIVE = {
    **_CLASSIC,
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
_CONSUMER = {"group.protocol": "consumer", "auto.offset.reset": "earliest"}
_SHARE = {"type": "share"}


class _Members:
    """A process with members of the Java client."""

    def __init__(self, bootstrap: str, log: Path) -> None:
        self._bootstrap = bootstrap
        command = java_command("MemberLives", classes=java_classes(), log_level="off")
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )

    def open(self, group: str, *names: str, **settings: str) -> None:
        """Start members of a group, by client id."""
        for name in names:
            more = {key.replace("_", "."): value for key, value in settings.items()}
            row = {"bootstrap.servers": self._bootstrap, "group.id": group, **more}
            self.run("open", f"{group}-{name}", TOPIC, row)

    def run(self, *line: object) -> None:
        """Run one step, and wait for its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline(), line

    def each(self, step: str, *names: str) -> None:
        """Run one step of several members."""
        for name in names:
            self.run(step, name)

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        """End the process, whose members have closed."""
        self._process.communicate(timeout=60)


def _play(bootstrap: str, directory: Path) -> None:
    """Run the members of the Java client."""
    alive = _Members(bootstrap, directory / "alive.log")
    victims = _Members(bootstrap, directory / "victims.log")
    kinds = {"classic": _CLASSIC, "consumer": _CONSUMER}
    for kind, settings in kinds.items():
        alive.open(f"{kind}-works", "a", **settings)
        alive.open(f"{kind}-late", "a", **{**settings, "max.poll.interval.ms": "5000"})
        alive.open(f"{kind}-killed", "a", **settings)
        victims.open(f"{kind}-killed", "b", **settings)
        alive.open(f"{kind}-static", "a", **settings, group_instance_id="one")
        alive.open(f"{kind}-pauses", "a", **settings)
    alive.open("fenced", "a", **_CLASSIC, group_instance_id="one")
    alive.open("rolling", "a", "b", **_COOPERATIVE)
    alive.open("shared", "a", "b", **_SHARE)
    victims.open("shared", "c", **_SHARE)
    for kind in kinds:
        names = [f"{kind}-{group}-a" for group in ("works", "late", "killed", "static", "pauses")]
        alive.each("await", *names)
        victims.run("await", f"{kind}-killed-b")
    alive.each("await", "fenced-a", "rolling-a", "rolling-b", "shared-a", "shared-b")
    victims.run("await", "shared-c")
    time.sleep(1)
    victims.kill()
    for kind, settings in kinds.items():
        alive.each("work", f"{kind}-works-a", f"{kind}-late-a")
        alive.open(f"{kind}-works", "b", **settings)
        alive.run("pause", f"{kind}-pauses-a")
        alive.run("close", f"{kind}-static-a")
        alive.open(f"{kind}-static", "a", **settings, group_instance_id="one")
    alive.open("fenced", "b", **_CLASSIC, group_instance_id="one")
    for name in "ab":
        alive.run("close", f"rolling-{name}")
        alive.open("rolling", name, **_COOPERATIVE)
        alive.run("await", f"rolling-{name}")
    time.sleep(_WORK_S)
    for kind in kinds:
        alive.each("resume", f"{kind}-works-a", f"{kind}-late-a")
        names = [f"{kind}-{group}" for group in ("works-a", "works-b", "late-a", "static-a")]
        alive.each("await", *names, f"{kind}-killed-a")
    alive.run("await", "fenced-b")
    time.sleep(2)
    for kind in kinds:
        names = [f"{kind}-{group}-a" for group in ("works", "late", "killed", "static", "pauses")]
        alive.each("close", f"{kind}-works-b", *names)
    alive.each("close", "fenced-b", "rolling-a", "rolling-b", "shared-a", "shared-b")
    alive.close()


class _RawMember:
    """A member whose requests are written by hand."""

    def __init__(self, port: int, group: Classic, name: str) -> None:
        self._group = group
        self._client = RawClient(port, client_id=f"{group.group}-{name}".encode())
        self.member_id, self.generation = "", -1

    def join(self) -> None:
        """Join as a new member, and wait for the generation."""
        self.ask_to_join()
        self.receive_join()

    def ask_to_join(self) -> None:
        """Send a JoinGroup of a new member."""
        request = self._group.join(
            session_timeout_ms=SESSION_MS, rebalance_timeout_ms=_REBALANCE_MS
        )
        self._client.send(request, _JOIN_WITHOUT_AN_ID)

    def rejoin(self) -> None:
        """Join with the member id, and wait for the generation."""
        request = self._group.join(
            self.member_id, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=_REBALANCE_MS
        )
        self._client.send(request, _JOIN)
        self.receive_join()

    def receive_join(self) -> None:
        """Wait for the response to JoinGroup, and send SyncGroup."""
        joined = self._client.receive()
        self.member_id, self.generation = joined.member_id, joined.generation_id
        members = [each.member_id for each in joined.members]
        self._client.send(self._group.sync(self.member_id, self.generation, *members), _SYNC)

    def receive_sync(self) -> None:
        """Wait for the response to SyncGroup."""
        self._client.receive()

    def beat(self) -> int:
        """Send a heartbeat; return its error code."""
        request = self._group.heartbeat(self.member_id, self.generation)
        return int(self._client.call(request, _HEARTBEAT).error_code)

    def beat_until(self, is_over: Callable[[int], bool]) -> None:
        """Send heartbeats."""
        while not is_over(self.beat()):
            time.sleep(_BEAT_S)

    def commit(self) -> None:
        """Commit an offset as a member."""
        request = commit(
            self._group.group, TOPIC, 0, member_id=self.member_id, epoch=self.generation
        )
        self._client.call(request, _COMMIT)

    def leave(self) -> None:
        """Leave."""
        self._client.call(self._group.leave(self.member_id), _LEAVE)
        self._client.close()


def _three_members(port: int) -> None:
    """Let two of three members leave while a rebalance waits; the third one misses it."""
    group = Classic("three", TOPIC)
    members = [_RawMember(port, group, name) for name in "abcd"]
    first, second, third, fourth = members
    first.join()
    first.receive_sync()
    for number, member in enumerate((second, third), 2):
        member.ask_to_join()
        others = members[: number - 1]
        for other in others:
            other.beat_until(lambda code: code == ErrorCode.REBALANCE_IN_PROGRESS)
        with ThreadPoolExecutor() as pool:
            list(pool.map(_RawMember.rejoin, others))
        member.receive_join()
        for each in members[:number]:
            each.receive_sync()
    fourth.ask_to_join()
    until = time.monotonic() + _REBALANCE_MS / 2_000 + SESSION_MS / 2_000
    while time.monotonic() < until:
        for member in (first, second, third):
            member.beat()
        time.sleep(_BEAT_S)
    first.leave()
    second.leave()
    third.beat_until(lambda code: code == ErrorCode.UNKNOWN_MEMBER_ID)
    fourth.receive_join()
    fourth.receive_sync()
    fourth.leave()


def _member_that_only_commits(port: int) -> None:
    """Renew a session by commits only."""
    member = _RawMember(port, Classic("commits", TOPIC), "a")
    member.join()
    member.receive_sync()
    for _ in range(int(2 * SESSION_MS / 1_000)):
        time.sleep(1)
        member.commit()
    assert member.beat() == ErrorCode.NONE
    member.leave()


def record(directory: Path) -> bytes:
    """Run all members, and return the capture."""
    kafka = RealKafka(directory / "kafka", _CONFIG)
    kafka.start()
    try:
        warm_up(kafka.bootstrap)
        proxy = ServedProxy(kafka, directory)
        proxy.open()
        try:
            client = RawClient(proxy.port)
            topic = CreateTopicsRequest.CreatableTopic(
                name=TOPIC, num_partitions=_PARTITIONS, replication_factor=1
            )
            client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
            client.close()
            with ThreadPoolExecutor() as pool:
                runs = [
                    pool.submit(_play, proxy.bootstrap, directory),
                    pool.submit(_three_members, proxy.port),
                    pool.submit(_member_that_only_commits, proxy.port),
                ]
                for run in runs:
                    run.result()
        finally:
            proxy.close()
    finally:
        kafka.kill()
    (capture,) = proxy.captures.iterdir()
    return capture.read_bytes()


def main() -> None:
    """Record the capture again."""
    CAPTURE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        data = record(Path(directory))
    packed = gzip.compress(data, mtime=0)
    CAPTURE.write_bytes(packed)
    sys.stdout.write(f"{CAPTURE.name}: {len(data)} bytes, {len(packed)} gzipped\n")


if __name__ == "__main__":
    main()
