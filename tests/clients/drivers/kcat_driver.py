"""Drives kcat, one process per call; a group member is a process that runs until `leave`.

kcat creates topics by a Metadata request and commits automatically, so there are no commit events.
The committed offsets and the next reader's records show whether records were lost.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from typing import IO

from tests.clients.drivers.protocol import Event, EventLog, ReadRow, SentRow, serve

_TIMEOUT_S = 60.0
_ASSIGNED = re.compile(r"assigned: (.*)$")
_REVOKED = re.compile(r"revoked: (.*)$")
_PARTITION = re.compile(r"\[(\d+)\]")


class KcatDriver:
    """See `tests.clients.drivers.protocol.Driver`."""

    def __init__(self, bootstrap: str) -> None:
        self._kcat = ["kcat", "-b", bootstrap]
        self._log = EventLog()
        self._members: dict[str, _Member] = {}

    def create_topic(self, topic: str, partitions: int) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            answer = json.loads(self._run(["-L", "-J", "-t", topic]))
            found = answer["topics"][0]["partitions"]
            if found:
                assert len(found) == partitions, answer
                return
            time.sleep(0.1)
        raise TimeoutError(topic)

    def produce(self, topic: str, codec: str, records: list[SentRow]) -> None:
        lines: dict[int, list[str]] = {}
        for partition, key, value in records:
            line = (value or "") if key is None else f"{key}\t{value or ''}"
            lines.setdefault(partition, []).append(line + "\n")
        options = ["-P", "-t", topic, "-z", codec, "-K", "\t", "-Z", "-X", "acks=all"]
        for partition, batch in lines.items():
            self._run([*options, "-p", str(partition)], "".join(batch))

    def read(self, topic: str, partitions: int, count: int) -> list[ReadRow]:
        del partitions  # kcat reads all partitions
        options = ["-C", "-t", topic, "-o", "beginning", "-c", str(count), "-J", "-q"]
        return [_row(line) for line in self._run(options).splitlines()]

    def join(self, consumer: str, group: str, topic: str, protocol: str) -> None:
        assert protocol == "classic"
        settings = {
            "client.id": consumer,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": "200",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "300",
        }
        command = [*self._kcat, "-J", "-u"]
        for key, value in settings.items():
            command += ["-X", f"{key}={value}"]
        command += ["-G", group, topic]
        self._members[consumer] = _Member(consumer, command, self._log)

    def leave(self, consumer: str) -> None:
        self._members.pop(consumer).leave()

    def members(self) -> dict[str, list[int]]:
        return {name: sorted(member.assigned) for name, member in self._members.items()}

    def events(self) -> list[Event]:
        return self._log.take()

    def close(self) -> None:
        for consumer in list(self._members):
            self.leave(consumer)

    def _run(self, options: list[str], text: str = "") -> str:
        command = [*self._kcat, *options]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr[-800:]}")
        return done.stdout


class _Member:
    """One `kcat -G` process, and two threads that read its output."""

    def __init__(self, name: str, command: list[str], log: EventLog) -> None:
        self.assigned: set[int] = set()
        self._name = name
        self._log = log
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read_records, args=[self._process.stdout], daemon=True),
            threading.Thread(target=self._read_notes, args=[self._process.stderr], daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def leave(self) -> None:
        self._process.terminate()
        status = self._process.wait(_TIMEOUT_S)
        for reader in self._readers:
            reader.join()
        if status not in {0, -15}:
            self._log.add("error", self._name, f"exit status {status}")

    def _read_records(self, stdout: IO[str]) -> None:
        for line in stdout:
            self._log.add("records", self._name, [_row(line)])

    def _read_notes(self, stderr: IO[str]) -> None:
        for line in stderr:
            if assigned := _ASSIGNED.search(line):
                self.assigned = {int(found) for found in _PARTITION.findall(assigned[1])}
            elif _REVOKED.search(line):
                self.assigned = set()
            elif "ERROR" in line:
                self._log.add("error", self._name, line)


def _row(line: str) -> ReadRow:
    message = json.loads(line)
    return message["partition"], message["offset"], message["key"], message["payload"]


if __name__ == "__main__":
    serve(KcatDriver(sys.argv[1]))
