"""A Connect cluster: it writes lines of growing files to one topic, and copies them to another.

Each file has a connector with one task; a mirror connector with several tasks copies them.
"""

from __future__ import annotations

import threading
from http.client import HTTPException
from typing import TYPE_CHECKING, cast
from urllib.error import HTTPError

from tests.clients.committed_reader import CommittedReader
from tests.clients.connect import Worker
from tests.clients.observer import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.oracle.target import Target

LINES, COPY = "lines", "here.lines"
PARTITIONS = 3
MIRROR = "mirror"
CONNECTORS = ("first", "second", MIRROR)
PATIENCE_S = 120.0
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
# Transactions are open most of the time, so that most failures happen during one.
_EXACTLY_ONCE = {
    "exactly.once.support": "required",
    "transaction.boundary": "interval",
    "transaction.boundary.interval.ms": "200",
}
_FENCED = rb"Finished fencing out %d task producers for source connector mirror"


class Files:
    """Files to which different lines are added."""

    def __init__(self, directory: Path, names: tuple[str, ...]) -> None:
        self._paths = {name: directory / f"{name}.txt" for name in names}
        self._written: set[str] = set()
        self._lock = threading.Lock()
        for path in self._paths.values():
            path.touch()

    def path(self, name: str) -> str:
        return str(self._paths[name])

    def add(self, count: int) -> None:
        """Add `count` lines to each file."""
        for name, path in self._paths.items():
            with self._lock, path.open("a") as file:
                first_number = len(self._written)
                lines = [f"{name} {number}" for number in range(first_number, first_number + count)]
                file.write("".join(f"{line}\n" for line in lines))
                self._written.update(lines)

    @property
    def lines(self) -> set[str]:
        """Return all lines written so far."""
        with self._lock:
            return set(self._written)


class ConnectCluster:
    """A broker, Connect workers, and the files that they read."""

    def __init__(self, target: Target, directory: Path, files: Files, workers: int) -> None:
        self.target = target
        self.files = files
        self.restarts = 0
        self.workers = [
            Worker(target.bootstrap, directory, f"worker-{index}") for index in range(workers)
        ]

    def start(self) -> None:
        """Start every worker at once."""
        for worker in self.workers:
            worker.launch()
        for worker in self.workers:
            worker.wait_until_ready()

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()

    def read_file(self, name: str, batch: int = 1_000) -> None:
        """Start a connector that reads a file, at most `batch` lines at a time.

        Further lines are read when the file grows again.
        """
        self._configure(
            name,
            {
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "tasks.max": "1",
                "file": self.files.path(name),
                "topic": LINES,
                "batch.size": str(batch),
            },
        )

    def mirror(self, tasks: int) -> None:
        """Start `tasks` tasks that copy the lines from one topic to another."""
        bootstrap = self.target.bootstrap
        self._configure(
            MIRROR,
            {
                "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
                "tasks.max": str(tasks),
                "source.cluster.alias": "here",
                "target.cluster.alias": "there",
                "source.cluster.bootstrap.servers": bootstrap,
                "target.cluster.bootstrap.servers": bootstrap,
                "source.consumer.isolation.level": "read_committed",
                "consumer.isolation.level": "read_committed",
                "topics": LINES,
                "replication.factor": "1",
                "sync.topic.acls.enabled": "false",
                "sync.topic.configs.enabled": "false",
                "refresh.topics.enabled": "false",
                "emit.offset-syncs.enabled": "false",
                "consumer.poll.timeout.ms": "100",
                "key.converter": _BYTES,
                "value.converter": _BYTES,
            },
        )

    def _configure(self, name: str, config: dict[str, str]) -> None:
        self.responsive_worker.ask_until_success(
            "PUT", f"/connectors/{name}/config", {**config, **_EXACTLY_ONCE}
        )

    @property
    def responsive_worker(self) -> Worker:
        """Return a worker that responds."""
        return next(worker for worker in self.workers if worker.is_running)

    def tasks(self, connector: str) -> list[dict[str, str]]:
        """Return the state and the worker of each task of a connector."""
        status = self.responsive_worker.ask_until_success("GET", f"/connectors/{connector}/status")
        return cast("list[dict[str, str]]", status["tasks"])

    def wait_for_tasks(self, connector: str, count: int) -> None:
        """Wait until `count` tasks of a connector run."""
        wait_until(
            lambda: [task["state"] for task in self.tasks(connector)] == ["RUNNING"] * count,
            f"{count} tasks of {connector}",
            PATIENCE_S,
        )

    def wait_for_copies(self, reader: CommittedReader) -> None:
        """Wait until every line written so far was copied; restart failed tasks."""
        expected = self.files.lines

        def is_all_there() -> bool:
            reader.read()
            if reader.counts[COPY].keys() >= expected:
                return True
            for connector in CONNECTORS:
                for task in self.tasks(connector):
                    if task["state"] == "FAILED":
                        self._restart_task(f"/connectors/{connector}/tasks/{task['id']}/restart")
            return False

        wait_until(is_all_there, f"copies of {len(expected)} lines", PATIENCE_S)

    def _restart_task(self, path: str) -> None:
        """Ask for the restart of one task, which may no longer exist: its last state remains.

        A restart of the whole connector would write to the config topic. If a zombie leader has
        fenced the leader, that write fails until the next rebalance.
        """
        try:
            self.responsive_worker.ask("POST", path)
        except HTTPError as refusal:
            refusal.close()
        except (HTTPException, OSError):
            pass  # the worker is starting
        else:
            self.restarts += 1

    def wait_until_fenced(self, tasks: int) -> None:
        """Wait until `tasks` tasks of the mirror were fenced by their successors."""
        wait_until(
            lambda: any(worker.has_printed(_FENCED % tasks) for worker in self.workers),
            f"{tasks} tasks to be fenced",
            PATIENCE_S,
        )

    def remove(self, *connectors: str) -> None:
        """Delete connectors, which ends their tasks cleanly."""
        for connector in connectors:
            self.responsive_worker.ask_until_success("DELETE", f"/connectors/{connector}")
            wait_until(
                lambda name=connector: (  # type: ignore[misc]  # mypy: cannot infer a bound lambda
                    name not in self.responsive_worker.ask_until_success("GET", "/connectors")
                ),
                f"{connector} to be gone",
                PATIENCE_S,
            )

    def reader(self) -> CommittedReader:
        topics = {LINES: PARTITIONS, COPY: PARTITIONS}
        return CommittedReader(self.target.bootstrap, topics, PATIENCE_S)
