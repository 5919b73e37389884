"""The tools of the image, in the process of a test or in their own, at a broker."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Final, cast

from kafkalite.docker.programs import TOOLS
from kafkalite.docker.tools.absent import REASONS
from kafkalite.docker.tools.run_class import main as run_class
from tests.kafka_tools.sides import Side

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.kafka_tools.case import Case

_ROOT: Final = Path(__file__).parents[2]
_LOG: Final = re.compile(r"\[\d{4}-[^]]*\] (ERROR|WARN) ")
"""Lines of logs: those of Java's tools are not compared, either."""
_STOP_TIMEOUT_S: Final = 40.0
_PROGRAM: Final = (
    "import os, sys; from kafkalite.docker.programs import run_program;"
    "sys.exit(run_program(sys.argv[1], sys.argv[2:], os.environ))"
)


def captured(run: Callable[[], object], text: str = "") -> tuple[int, str, str]:
    """Return the status, the output and the errors of a program in this process."""
    output, errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode())))
    try:
        with redirect_stdout(output), redirect_stderr(errors):
            status = run()
    except SystemExit as left:
        status = left.code
    finally:
        sys.stdin = stdin
    output.flush()
    assert isinstance(output.buffer, io.BytesIO)
    return int(str(status or 0)), output.buffer.getvalue().decode(), errors.getvalue()


def _answer(run: Callable[[], object], text: str = "") -> dict[str, object]:
    status, output, errors = captured(run, text)
    return {"status": status, "stdout": output, "stderr": _without_logs(errors)}


def _without_logs(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not _LOG.match(line))


class OwnSide(Side):
    """Runs the tools of the image: most in this process, those in the background in their own."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__(names)
        self._started: dict[str, _StartedProgram] = {}

    def supports(self, case: Case) -> bool:
        """Return whether the image has the tool of a case, or this module what prepares it."""
        return case.tool in {*TOOLS, *_PREPARATIONS, *_BACKGROUND} - REASONS.keys()

    def close(self) -> None:
        """End the programs in the background."""
        for program in self._started.values():
            program.stop()

    def _ask(self, command: str, name: str, **fields: object) -> dict[str, object]:
        if command == "output":
            return self._started[name].output()
        if command == "stop":
            return self._started.pop(name).stop()
        words = [str(fields["main"]), *map(str, cast("list[str]", fields["arguments"]))]
        if command == "start":
            self._started[name] = _StartedProgram(words)
            return {}
        program = _PREPARATIONS.get(words[0])
        if program is not None:
            return _answer(lambda: program(*words[1:]))
        return _answer(lambda: run_class("kafka-run-class", words, {}), str(fields["input"]))


class _StartedProgram:
    """A tool in its own process."""

    def __init__(self, words: list[str]) -> None:
        self._output = TemporaryFile()  # noqa: SIM115 - `stop` closes it
        self._errors = TemporaryFile()  # noqa: SIM115 - as above
        program = _BACKGROUND.get(words[0])
        command = ["-c", _PROGRAM, "kafka-run-class", *words]
        if program is not None:
            command = ["-m", program, *words[1:]]
        self._process = subprocess.Popen(
            [sys.executable, *command], cwd=_ROOT, stdout=self._output, stderr=self._errors
        )

    def output(self) -> dict[str, object]:
        """Return what it has printed so far."""
        return {"stdout": _content(self._output), "stderr": _without_logs(_content(self._errors))}

    def stop(self) -> dict[str, object]:
        """End it by SIGTERM, and return its results."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        finally:
            self._process.kill()
            self._process.wait()
        result = {**self.output(), "status": self._process.returncode}
        self._output.close()
        self._errors.close()
        return result


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _copy(source: str, target: str) -> None:
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


_PREPARATIONS: Final[Mapping[str, Callable[..., None]]] = {"CopyFile": _copy}
"""Java class that prepares others → what does the same here."""
_BACKGROUND: Final = {
    "OpenTransaction": "tests.kafka_tools.open_transaction",
    "StreamsApplication": "tests.kafka_tools.streams_member",
}
"""Java class in the background → the program that does the same here."""
