"""Long answers, which are built a few entries at a time, so that other tasks run meanwhile."""

from __future__ import annotations

import asyncio
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalite.config.typed_json import fields_of, json_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator

    from kafkalite.control.command_table import Command
    from kafkalite.server.broker import Broker

T = TypeVar("T")

REQUESTS_PER_TURN: Final = 20
"""The number of logged requests that are decoded before other tasks run."""
_ENTRIES_PER_TURN: Final = 100
_SORTED_PER_TURN: Final = 2_000


async def in_turns(entries: Iterable[T], per_turn: int = _ENTRIES_PER_TURN) -> AsyncIterator[T]:
    """Yield entries, and let other tasks run after each `per_turn` of them.

    Fewer entries are yielded without a pause.
    """
    for number, each in enumerate(entries, 1):
        yield each
        if number % per_turn == 0:
            await asyncio.sleep(0)


async def result_in_turns(steps: Generator[None, None, T]) -> T:
    """Return the result of a task, and let other tasks run after each of its steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


async def sorted_in_turns(entries: Iterable[T], key: Callable[[T], Any]) -> AsyncIterator[T]:
    """Yield entries by their keys, and let other tasks run meanwhile, also while they are sorted.

    `entries` must not change meanwhile.
    """
    parts = []
    for chunk in chunks(entries, _SORTED_PER_TURN):
        chunk.sort(key=key)
        parts.append(chunk)
        if len(chunk) == _SORTED_PER_TURN:
            await asyncio.sleep(0)
    async for each in in_turns(merge(*parts, key=key)):
        yield each


def drain(entries: list[T]) -> Iterator[T]:
    """Yield the entries of a list, and remove each: to free very many at once takes long."""
    entries.reverse()
    while entries:
        yield entries.pop()


async def answer_pieces(command: Command[Any], broker: Broker) -> AsyncIterator[str]:
    """Perform a command, and yield the JSON text of its answer in pieces; see `Row.pieces`."""
    async for piece in json_pieces(await command.perform(broker)):
        yield piece  # no variable refers to the answer, so it is freed in pieces, too


async def json_pieces(answer: Any) -> AsyncIterator[str]:  # noqa: ANN401 - any dataclass
    """Yield the JSON text of an answer, with few entries of its lists in each piece.

    Entries that the caller does not refer to are freed one by one, because to free very many at
    once takes long.
    """
    contents = {each.name: getattr(answer, each.name) for each in fields_of(type(answer))}
    del answer
    separator = "{"
    for name in tuple(contents):
        content = contents.pop(name)
        yield f"{separator}{json_text(name)}:"
        separator = ","
        if not isinstance(content, tuple):
            yield json_text(content)
            continue
        entries = list(content)
        del content
        yield "["
        for number, chunk in enumerate(chunks(drain(entries), _ENTRIES_PER_TURN)):
            yield ("," if number else "") + json_text(chunk)[1:-1]
        yield "]"
    yield "}"


def chunks(entries: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most `size` entries."""
    iterator = iter(entries)
    while chunk := list(islice(iterator, size)):
        yield chunk
