"""Rounds of kill and restart while librdkafka producers send offsets in transactions."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.drivers.offset_sender import SenderTask
from tests.clients.observer import committed_offsets
from tests.clients.worker_processes import Worker

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from tests.oracle.target import Target

_TOPIC = "offsets-of"
_GROUP = "sent"
_LONGEST_DOWN_S = 0.4
_LONGEST_UP_S = 0.3
_EARLY_KILLS = 0.3
"""The share of rounds that kill the broker before every sender has committed again."""


class Hang(NamedTuple):
    """A sender that committed nothing after a restart."""

    round: int
    sender: int
    last_line: str
    """The step that it did not complete."""
    log: Path


@dataclass(slots=True)
class Rounds:
    """A broker and its senders."""

    target: Target
    directory: Path
    random: random.Random
    recovery: str
    patience_s: float = 60.0
    """A sender that commits nothing for this long after a restart hangs."""
    senders: int = 4
    debug: str = ""
    workers: list[Worker] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    hangs: list[Hang] = field(default_factory=list)

    def run(self, rounds: int) -> list[Hang]:
        """Kill and restart the broker `rounds` times; return the senders that hung.

        A sender that hung is killed and replaced.
        """
        assert not self.workers
        self._create_topics()
        try:
            for slot in range(self.senders):
                self._start_sender(slot)
            self._wait_for_commits(0)
            for number in range(1, rounds + 1):
                self._kill_and_restart()
                if self.random.random() > _EARLY_KILLS:
                    self._wait_for_commits(number)
            self._wait_for_commits(rounds + 1)
        finally:
            for worker in self.workers:
                worker.kill()
        return self.hangs

    def check_offsets(self) -> None:
        """Check that every offset is there whose commit a sender has reported."""
        for slot, worker in enumerate(self.workers):
            offsets = committed_offsets(
                self.target.bootstrap, f"{_GROUP}-{slot}", f"{_TOPIC}-{slot}"
            )
            assert offsets[0] >= int(worker.last_value("committed"))

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.target.bootstrap})
        topics = [NewTopic(f"{_TOPIC}-{slot}", 1, 1) for slot in range(self.senders)]
        for created in admin.create_topics(topics).values():
            created.result(self.patience_s)

    def _start_sender(self, slot: int) -> None:
        task = SenderTask(
            bootstrap=self.target.bootstrap,
            transactional_id=f"{_GROUP}-{slot}",
            group=f"{_GROUP}-{slot}",
            topic=f"{_TOPIC}-{slot}",
            recovery=self.recovery,
            debug=self.debug,
        )
        log = self.directory / f"sender-{slot}-{len(self.logs)}.log"
        command = [sys.executable, "-m", "tests.clients.drivers.offset_sender"]
        worker = Worker(command, task, log)
        self.logs.append(log)
        self.workers[slot : slot + 1] = [worker]
        worker.wait_for("ready")

    def _kill_and_restart(self) -> None:
        time.sleep(self.random.uniform(0, _LONGEST_UP_S))
        self.target.kill()
        time.sleep(self.random.uniform(0, _LONGEST_DOWN_S))
        self.target.start()

    def _wait_for_commits(self, number: int) -> None:
        before = [worker.commits for worker in self.workers]
        deadline = time.monotonic() + self.patience_s
        for slot, worker in enumerate(self.workers):
            remaining_s = max(0.0, deadline - time.monotonic())
            if not worker.has_printed("committed", remaining_s, more_than=before[slot]):
                self.hangs.append(Hang(number, slot, worker.last_line, worker.log))
                worker.kill()
                self._start_sender(slot)
