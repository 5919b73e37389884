"""Records the methods and options that cells call, and converts results to plain values."""

from __future__ import annotations

import inspect
import json
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TIMEOUT_S = 30.0
_MAX_DEPTH = 12


class Recorder:
    """Wraps an admin client; `cell` stores the result of a call, and the used options."""

    def __init__(
        self,
        client: Any,  # noqa: ANN401 - the libraries have no common type
        surface: Mapping[str, Iterable[str]],
        error_of: Callable[[BaseException], dict[str, Any]],
        shown: Callable[[Any], Any],
    ) -> None:
        self._client = client
        self._surface = {name: sorted(options) for name, options in surface.items()}
        self._error_of = error_of
        self._shown = shown
        self._calls: dict[str, set[str]] = {}
        self._cells: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a method of the library
        method = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            used = self._calls.setdefault(name, set())
            used.update(_named(method, arguments, options) & set(self._surface[name]))
            return method(*arguments, **options)

        return call

    def cell(self, name: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Make a call and store its result; return the result, None for an error."""
        assert name not in self._cells, name
        self._calls = {}
        result = None
        try:
            result = call()
            answer = self.plain(result)
        except Exception as failure:  # noqa: BLE001 - an error is a result
            answer = self._error_of(failure)
        calls = {method: sorted(options) for method, options in self._calls.items()}
        self._cells[name] = {"calls": calls, "answer": answer}
        return result

    def print(self) -> None:
        """Print the sweep as JSON."""
        sys.stdout.write(json.dumps({"surface": self._surface, "cells": self._cells}))

    def plain(self, value: Any, depth: int = 0) -> Any:  # noqa: ANN401
        """Convert a value to dictionaries, lists and plain values."""
        assert depth < _MAX_DEPTH, value
        if isinstance(value, Future):
            return self._outcome(value, depth)
        if isinstance(value, BaseException):
            return self._error_of(value)
        if isinstance(value, type):
            return value.__name__
        if isinstance(value, Enum):
            return value.name
        if value is None or isinstance(value, bool | int | float | str):
            return value
        return self._plain_object(value, depth)

    def _outcome(self, future: Future[Any], depth: int) -> Any:  # noqa: ANN401
        try:
            return self.plain(future.result(TIMEOUT_S), depth + 1)
        except Exception as failure:  # noqa: BLE001 - an error is a result
            return self._error_of(failure)

    def _plain_object(self, value: Any, depth: int) -> Any:  # noqa: ANN401
        if isinstance(value, bytes):
            return f"{len(value)} bytes"
        if isinstance(value, Mapping):
            return {
                key if isinstance(key, str) else str(self._key(key)): self.plain(row, depth + 1)
                for key, row in value.items()
            }
        if hasattr(value, "_asdict"):
            return self.plain(value._asdict(), depth + 1)
        if isinstance(value, tuple):
            return [self.plain(row, depth + 1) for row in value]
        if isinstance(value, list | set | frozenset):
            rows = [self.plain(row, depth + 1) for row in value]
            return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
        shown = self._shown(value)
        return self.plain(vars(value) if shown is None else shown, depth + 1)

    def _key(self, key: Any) -> Any:  # noqa: ANN401
        shown = self._shown(key)
        return key if shown is None else shown


def _named(
    method: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
) -> set[str]:
    """Return the names of the given parameters."""
    try:
        bound = inspect.signature(method).bind(*arguments, **options)
    except ValueError:  # a function without a signature
        return set(options)
    return set(bound.arguments) | set(options)


def wait_until(condition: Callable[[], Any]) -> None:
    """Wait for a condition, which is false while it raises an exception."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except Exception:  # noqa: BLE001, S110 - not yet
            pass
        time.sleep(0.05)
    raise TimeoutError("the condition is still false")
