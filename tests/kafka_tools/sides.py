"""A broker, and the tools that run against it."""

from __future__ import annotations

import re
import shlex
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.kafka_tools.java_tools import JavaTools
from tests.kafka_tools.masking import masked
from tests.kafka_tools.scripts import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kafka_tools.case import Case

_POLL_S: Final = 0.1


def placeholders(bootstrap: str, controller: str) -> dict[str, str]:
    """Return the placeholders for the addresses of a broker and of its controller."""
    return {
        "bootstrap": bootstrap,
        "controller": controller,
        "port": bootstrap.rpartition(":")[2],
        "controller-port": controller.rpartition(":")[2],
    }


class Result(NamedTuple):
    """The comparable result of a tool."""

    status: int
    output: list[str]
    errors: list[str]


class Side(ABC):
    """Runs tools at a broker; `names` are the placeholders of commands, with values."""

    state_timeout_s = 40.0
    """How long a case may take until its output has the expected state."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._masks = {value: f"<{name}>" for name, value in reversed(list(names.items()))}

    @property
    def bootstrap(self) -> str:
        """The address of the broker."""
        return self._names["bootstrap"]

    @abstractmethod
    def close(self) -> None:
        """End the processes of tools."""

    def perform(self, case: Case) -> Result | None:
        """Run a case, until its output has the expected state; None if the tool keeps running."""
        if case.stops:
            self._await(case, "output", case.stops)
            return self.result(case, self._ask("stop", case.stops))
        if case.background:
            self._ask("start", case.background, **self._command(case))
            self._await(case, "output", case.background)
            return None
        answer = self._await(case, "run", case.tool, **self._command(case))
        return self.result(case, answer)

    def _await(self, case: Case, command: str, name: str, **fields: object) -> dict[str, object]:
        deadline = time.monotonic() + self.state_timeout_s
        while True:
            answer = self._ask(command, name, **fields)
            is_reached = re.search(case.until, str(answer["stdout"]), re.MULTILINE)
            if is_reached or time.monotonic() > deadline:
                return answer
            time.sleep(_POLL_S)

    def result(self, case: Case, answer: Mapping[str, object]) -> Result:
        """Return the comparable result of an answer with stdout, stderr and status."""
        output, errors = (
            masked(str(answer[name]), self._masks, figures=case.figures, without=case.without)
            for name in ("stdout", "stderr")
        )
        if case.repeats:
            output = list(dict.fromkeys(output))
        if case.unordered:
            output.sort()
        status = answer["status"]
        assert isinstance(status, int)
        return Result(status, output, errors)

    def words(self, case: Case) -> list[str]:
        """Return the arguments of a case."""
        return [word.format_map(self._names) for word in shlex.split(case.command)]

    def _command(self, case: Case) -> dict[str, object]:
        script = SCRIPTS.get(case.tool)
        words = self.words(case)
        if script is not None and script.address != "none" and "--bootstrap-c" not in case.command:
            address = [script.address_option, self._names["bootstrap"]]
            words = [*address, *words] if script.address == "first" else [*words, *address]
        main, words = (case.tool, words) if script is None else script.class_of(words)
        return {
            "main": main,
            "arguments": words,
            "input": case.text,
        }

    @abstractmethod
    def _ask(self, command: str, name: str, **fields: object) -> dict[str, object]:
        """Carry out a command of `ToolRunner.java`, and return its answer."""


class JavaSide(Side):
    """Runs Kafka's tools, in one Java process."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__(names)
        self._tools = JavaTools()

    def close(self) -> None:
        """End the Java process."""
        self._tools.close()

    def _ask(self, command: str, name: str, **fields: object) -> dict[str, object]:
        return self._tools.ask(command, name, **fields)
