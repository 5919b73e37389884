"""Checks of a user: a command or a Python function that says whether all is right after a run."""

from __future__ import annotations

import re
import shutil
import sys
from importlib import import_module
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkalite.lab.sweep.commands import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.testing.broker import Broker

_FUNCTION: Final = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)")
_OUTPUT_LINES: Final = 20


class CheckError(ValueError):
    """A check that cannot be used; one sentence."""


class Check(Protocol):
    """Says whether all is right at the end of a run."""

    def problem(
        self, cluster: Broker, variables: Mapping[str, str], limit_s: float
    ) -> Problem | None:
        """Return what is wrong; None if nothing is."""

    def stop(self) -> None:
        """End the checks that run, if they can be ended."""


class Problem:
    """What a check found."""

    def __init__(self, text: str, output: str) -> None:
        self.text = text
        """One sentence."""
        self.output = output
        """The end of what the check wrote, or its exception."""


class CommandCheck:
    """A command that ends with another exit status than 0 if something is wrong."""

    def __init__(self, words: Sequence[str]) -> None:
        self._command = Command(words)

    def problem(
        self, cluster: Broker, variables: Mapping[str, str], limit_s: float
    ) -> Problem | None:
        """Run the command with the same variables as the command of the sweep."""
        del cluster
        result = self._command.run(variables, limit_s)
        if result.is_success:
            return None
        lines = result.output.strip().splitlines()
        status = "did not end" if result.status is None else f"exit status {result.status}"
        text = f"the check failed ({status})" + (f": {lines[-1]}" if lines else "")
        return Problem(text, "\n".join(lines[-_OUTPUT_LINES:]))

    def stop(self) -> None:
        """End the commands that run."""
        self._command.stop()


class FunctionCheck:
    """A Python function that raises an exception if something is wrong.

    It is called with the cluster, in this process, and without a time limit.
    """

    def __init__(self, function: Callable[[Broker], Any]) -> None:
        self._function = function

    def problem(
        self, cluster: Broker, variables: Mapping[str, str], limit_s: float
    ) -> Problem | None:
        """Call the function."""
        del variables, limit_s
        try:
            self._function(cluster)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - sys.exit() and pytest.fail(), too
            name, text = type(error).__name__, str(error)
            first = text.partition("\n")[0]
            sentence = f"the check failed: {name}" + (f": {first}" if first else "")
            return Problem(sentence, f"{name}: {text}")
        return None

    def stop(self) -> None:
        """Do nothing: a function cannot be ended."""


def check_of(words: Sequence[str]) -> Check | None:
    """Return the check of `--check`: a command, or the function of `module:function`.

    Modules are also found in the present directory. Raises CheckError for a function that does not
    exist.
    """
    if not words:
        return None
    found = _FUNCTION.fullmatch(words[0]) if len(words) == 1 else None
    if found is None or shutil.which(words[0]) is not None:
        return CommandCheck(words)
    return FunctionCheck(_function(*found.groups()))


def _function(module_name: str, name: str) -> Callable[[Broker], Any]:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    text = f"--check {module_name}:{name}"
    try:
        module = import_module(module_name)
    except SystemExit as error:
        raise CheckError(f"{text}: cannot import {module_name}: it ends the process") from error
    except Exception as error:  # the module is the user's
        raise CheckError(f"{text}: cannot import {module_name}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise CheckError(f"{text}: the module {module_name} has no function {name}")
    if iscoroutinefunction(function):
        raise CheckError(f"{text}: the function is a coroutine function; it must not be async")
    return function  # type: ignore[no-any-return]
