"""A real single-node Apache Kafka (KRaft, combined roles) run from the official jars."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.config.default_overrides import KAFKALITE_DEFAULTS
from tests.oracle.jars import compiled, java_command
from tests.oracle.requirements import UnavailableError
from tests.oracle.target import COMMON_CONFIG, NO_FEATURES, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
_PROGRAMS = Path(__file__).parent / "java"
_READY = "Kafka Server started"
_START_TIMEOUT_S = 180.0
_STOP_TIMEOUT_S = 120.0
_THREAD_DUMP_S = 2.0
FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
# JVM options of bin/kafka-server-start.sh: for measurements, not for tests.
PRODUCTION_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


class RealKafka:
    """Apache Kafka as a process of ours; `directory` holds its data, properties and log.

    A feature's level, as of `transaction.version`, is written when the storage is formatted.
    `classes` is a directory with plug-ins of ours.
    """

    name = "kafka"

    def __init__(
        self,
        directory: Path,
        config: Mapping[str, str] = COMMON_CONFIG,
        *,
        heap: str = "512m",
        flags: tuple[str, ...] = FAST_START,
        release: str | None = None,
        features: Mapping[str, str] = NO_FEATURES,
        format_options: tuple[str, ...] = ("--standalone",),
        defaults: Mapping[str, str] = KAFKALITE_DEFAULTS,
        classes: Path | None = None,
    ) -> None:
        self.port = free_port()
        self._controller_port = free_port()
        self._directory = directory
        self._config = config
        self._heap = heap
        self._flags = flags
        self._release = release
        self._features = features
        self._format_options = format_options
        self._defaults = defaults
        self._classes = classes
        self._log = directory / "kafka.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """Return the bootstrap address, `host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def controller(self) -> str:
        """Return the address of the controller, `host:port`."""
        return f"127.0.0.1:{self._controller_port}"

    @property
    def data(self) -> Path:
        """Return the directory that holds a directory for every partition."""
        return self._directory / "data"

    @property
    def pid(self) -> int:
        """Return the id of the running process."""
        assert self._process is not None
        return self._process.pid

    def prepare(self) -> None:
        """Write the properties and format the storage, unless that was done before."""
        if self._properties_path.exists():
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        self._write_properties()
        command = java_command(
            "kafka.tools.StorageTool",
            *self._format_arguments(),
            classes=self._classes,
            release=self._release,
        )
        completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if completed.returncode != 0:
            raise UnavailableError(f"Kafka could not format its storage: {completed.stderr[-800:]}")

    def configure(self, config: Mapping[str, str]) -> None:
        """Use other settings from the next start on."""
        self._config = config
        self._write_properties()

    def start(self) -> None:
        """Start the broker and wait for the log line with which it reports that it is ready."""
        if self._can_format_when_launched and not self._properties_path.exists():
            self._directory.mkdir(parents=True, exist_ok=True)
            self._write_properties()
            self._launch("FormattedKafka", *self._format_arguments(), classes=compiled(_PROGRAMS))
        else:
            self.prepare()
            self.launch()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._is_ready():
            if self._process is None or self._process.poll() is not None:
                raise UnavailableError(f"Kafka ended at start: {self.log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise UnavailableError(f"Kafka was not ready within {_START_TIMEOUT_S:.0f} s")
            time.sleep(0.05)

    def launch(self) -> None:
        """Start the process without waiting for anything."""
        self._launch("kafka.Kafka", classes=self._classes)

    @property
    def _can_format_when_launched(self) -> bool:
        """Whether one JVM can format the storage and start: a third less processor time."""
        is_usual = self._release is None and self._classes is None
        return is_usual and shutil.which("javac") is not None

    @property
    def _properties_path(self) -> Path:
        return self._directory / "server.properties"

    def _format_arguments(self) -> tuple[str, ...]:
        levels = [f"--feature={name}={level}" for name, level in self._features.items()]
        options = (*self._format_options, "-t", CLUSTER_ID, "-c", str(self._properties_path))
        return ("format", *options, *levels)

    def _launch(self, main_class: str, *arguments: str, classes: Path | None) -> None:
        command = java_command(
            main_class,
            str(self._properties_path),
            *arguments,
            classes=classes,
            heap=self._heap,
            log_level="info",
            flags=self._flags,
            release=self._release,
        )
        with self._log.open("wb") as log:  # a new file, since `start` reads it for the ready line
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self) -> None:
        """Stop cleanly and wait for the end.

        A broker that does not end in time is killed, so that it can be started again.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGQUIT)  # a JVM writes its threads' stacks to its log
            time.sleep(_THREAD_DUMP_S)
            self.kill()
            raise TimeoutError(f"Kafka did not stop: {self._log.read_text()[-20_000:]}") from None
        self._process = None

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop the process until `resume`: it runs, but it does nothing."""
        self._send_and_wait(signal.SIGSTOP, os.WSTOPPED)

    def resume(self) -> None:
        """Let a paused process continue."""
        self._send_and_wait(signal.SIGCONT, os.WCONTINUED)

    def _send_and_wait(self, number: signal.Signals, change: int) -> None:
        os.kill(self.pid, number)
        os.waitid(os.P_PID, self.pid, change)

    def log_text(self) -> str:
        """Return the broker's own log since the last start."""
        return self._log.read_text(errors="replace")

    def log_tail(self) -> str:
        """Return the end of the broker's own log."""
        return self.log_text()[-2000:]

    def _is_ready(self) -> bool:
        if _READY not in self.log_text():
            return False
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _write_properties(self) -> None:
        lines = "".join(f"{key}={value}\n" for key, value in self._properties().items())
        self._properties_path.write_text(lines)

    def _properties(self) -> dict[str, str]:
        controller = self.controller
        return {
            # Both brokers get the same values for settings whose defaults differ.
            **self._defaults,
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": controller,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data),
            "log.cleaner.dedupe.buffer.size": "2097152",
            **self._config,
        }
