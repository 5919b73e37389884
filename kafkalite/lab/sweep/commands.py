"""The command of a sweep: a process group that is run with a time limit, and ended with it."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock, Thread, Timer
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

from kafkalite.ports.system import IS_WINDOWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GRACE_S: Final = 2.0
"""The time that a command has to end after SIGTERM, before its group is killed."""
_MAX_OUTPUT_BYTES: Final = 16 * 1024
"""The end of the output of a command, which is stored."""
_READ_BYTES: Final = 64 * 1024
_TOKEN_BYTES: Final = 16


class CommandError(Exception):
    """A command that cannot be started; one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended."""

    status: int | None
    """The exit status, negative for a signal; None if the time limit ended it."""
    seconds: float
    """The time that it took; the time limit if that ended it."""
    output: str
    """The end of what it wrote to stdout and stderr."""
    ignored_termination: bool = False
    """Whether it was killed because it went on after SIGTERM."""

    @property
    def is_success(self) -> bool:
        """Whether it ended by itself, with exit status 0."""
        return self.status == 0


class Command:
    """A command that can run several times, also at the same time."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._lock = Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = False

    def run(self, variables: Mapping[str, str], limit_s: float) -> CommandResult:
        """Run the command with more environment variables, for at most `limit_s` seconds.

        The processes of its group that it leaves behind are killed. Raises CommandError if it
        cannot start.
        """
        with _Output() as output:
            began = monotonic()
            process = self._start(variables, output.descriptor)
            ended_by_limit: list[bool] = []
            # A wait with a time limit would poll, and notice the end up to 50 ms late.
            limit = Timer(limit_s, lambda: ended_by_limit.append(_terminate(process)))
            limit.start()
            try:
                status = process.wait()
            except BaseException:  # Ctrl-C: the command can end its own services
                _terminate(process)
                raise
            finally:
                limit.cancel()
                limit.join()
                seconds = monotonic() - began
                _signal_group(process, "SIGKILL")
                with self._lock:
                    self._running.discard(process)
            text = output.end()
        return CommandResult(
            status=None if ended_by_limit else status,
            seconds=limit_s if ended_by_limit else seconds,
            output=text,
            ignored_termination=any(ended_by_limit),
        )

    def stop(self) -> None:
        """End all runs, and start no others: each gets SIGTERM, and is killed after GRACE_S."""
        with self._lock:
            self._is_stopped = True
            running = tuple(self._running)
        for process in running:
            _signal_group(process, "SIGTERM")
        for process in running:
            _kill_late(process)

    def _start(self, variables: Mapping[str, str], output: int) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._is_stopped:
                raise CommandError("the sweep was stopped")
            try:
                process = subprocess.Popen(  # noqa: S603 - the user's command
                    self.words,
                    env={**os.environ, **variables},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=not IS_WINDOWS,
                )
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise CommandError(f"cannot run {self.words[0]!r}: {reason}") from error
            self._running.add(process)
        return process


class _Output:
    """A pipe that a command writes to, of which the end is stored; a context manager.

    A file would grow with the output. The end of the pipe cannot be awaited, because a daemon that
    the command has started may hold it open.
    """

    def __init__(self) -> None:
        self._source, self.descriptor = os.pipe()
        """The descriptor that the command writes to."""
        self._token = os.urandom(_TOKEN_BYTES)
        self._stored = b""
        self._reader = Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        os.close(self.descriptor)
        os.close(self._source)

    def end(self) -> str:
        """Return the end of what was written up to now; what follows is not read."""
        if self._reader.is_alive():
            os.write(self.descriptor, self._token)
            self._reader.join()
        return self._stored.decode(errors="replace")

    def _read(self) -> None:
        while True:
            self._stored += os.read(self._source, _READ_BYTES)
            written, token, _ = self._stored.partition(self._token)
            if token:
                self._stored = written[-_MAX_OUTPUT_BYTES:]
                return
            self._stored = self._stored[-_MAX_OUTPUT_BYTES - _TOKEN_BYTES :]


def _terminate(process: subprocess.Popen[bytes]) -> bool:
    """End the group of a process; return whether it had to be killed."""
    _signal_group(process, "SIGTERM")
    return _kill_late(process)


def _kill_late(process: subprocess.Popen[bytes]) -> bool:
    """Kill the group of a process that does not end in time; return whether it had to be."""
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        _signal_group(process, "SIGKILL")
        process.wait()
        return True
    return False


def _signal_group(process: subprocess.Popen[bytes], name: str) -> None:
    """Send a signal to a process and to those that it has started, if any is left."""
    with suppress(OSError):  # all have ended
        if IS_WINDOWS:
            process.terminate()
        else:
            os.killpg(process.pid, getattr(signal, name))
