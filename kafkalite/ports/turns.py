"""Turns: long tasks pause, so that the event loop does other work.

A request that may take long is served in a `workers.Worker`, which the event loop switches to.
The lists of a request whose elements are handled one by one are `PausingList`s, which call `pause`
while they are iterated; `in_steps` does this for other collections. During the worker's turn
`pause` returns at once. After it, `pause` switches to the event loop, which does other work and
resumes the worker later. State may have changed by then, so `pause` is called only between two
entities of a request, never within a decision.

`run_in_thread` runs a function that releases the interpreter's lock, such as a decompression, in
a thread. Outside of a worker, `pause` does nothing and `run_in_thread` calls the function.
"""

from __future__ import annotations

from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kafkalite.ports.workers import Worker

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


ELEMENTS_PER_PAUSE = 128
"""Number of elements between two pauses of an iteration."""

pause_count = 0
"""The number of pauses in this process; if it has not grown, no other work of the cluster was done.

It counts the pauses of all clusters, also those of other threads."""


def _no_worker() -> None:
    """Return None: there is no worker in this process yet."""


current_worker: Callable[[], Worker | None] = _no_worker
"""Returns the worker that runs, or None outside of workers; the module `workers` replaces it."""


class NeedsWorkerError(Exception):
    """A request may take long and must be served in a worker; nothing has changed yet."""


class ThreadCall:
    """A function that a worker waits for, and its result."""

    __slots__ = ("_call", "_failure", "_result")

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._result: object = None
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Call the function, and store its result or exception for the worker."""
        try:
            self._result = self._call()
        except BaseException as failure:  # noqa: BLE001 - raised again where it is waited for
            self._failure = failure

    def result(self) -> object:
        """Return the result of the function, or raise its exception; called once."""
        failure, self._failure = self._failure, None
        if failure is None:
            return self._result
        try:
            raise failure
        finally:
            # The traceback refers to this frame. A cycle would keep the argument of the call alive.
            del failure


class MemoryRequest:
    """Sent by a worker that needs memory for the objects of a long request of this many bytes."""

    __slots__ = ("size_bytes",)

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes


class ElementCount(NamedTuple):
    """The number of elements of a message so far, and its maximum."""

    elements: int
    maximum: int


def pause() -> None:
    """Let other work run if this worker's turn is over."""
    global pause_count  # noqa: PLW0603 - counts all pauses of the process
    worker = current_worker()
    if worker is not None and perf_counter() >= worker.deadline:
        pause_count += 1
        worker.hand_over(worker)


def end_turn() -> None:
    """Let other work run, also if this worker's turn is not over.

    For a step that takes longer than a turn.
    """
    worker = current_worker()
    if worker is not None and worker.deadline != inf:
        worker.deadline = -inf
        pause()


def wait_for_memory(size_bytes: int) -> None:
    """Wait until there is memory for a long request of this size in addition to the current ones.

    Such a request takes many times its size in memory until its answer has been built.
    """
    worker = current_worker()
    if worker is not None:
        worker.hand_over(MemoryRequest(size_bytes))


def limit_elements(max_elements: int) -> None:
    """Begin to count the elements in the lists of a message that this worker reads."""
    worker = current_worker()
    if worker is not None:
        worker.element_count, worker.max_elements = 0, max_elements


def count_elements(count: int) -> ElementCount | None:
    """Count `count` more elements of the message that this worker reads.

    Returns the count if the message exceeds its limit, otherwise None. Outside of a worker,
    elements are not counted.
    """
    worker = current_worker()
    if worker is None:
        return None
    worker.element_count += count
    if worker.element_count <= worker.max_elements:
        return None
    return ElementCount(worker.element_count, worker.max_elements)


def without_pauses(call: Callable[[], T]) -> T:
    """Return the result of `call`, which does not pause.

    For work that is caused by a decision for another request: no request may see it incomplete.
    """
    worker = current_worker()
    if worker is None:
        return call()
    deadline, worker.deadline = worker.deadline, inf
    try:
        return call()
    finally:
        worker.deadline = deadline


class PausingList(list[T]):
    """A long list that pauses while it is iterated.

    It must not change meanwhile, and a decision must not iterate over it. Slices do not pause.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[T]:
        """Yield the elements, with pauses."""
        return iterate_with_pauses(list.__iter__(self))


_SEQUENCES = (list, tuple, range, PausingList)


def pausing(elements: list[T]) -> list[T]:
    """Return a list that pauses while it is iterated, if it is long."""
    return PausingList(elements) if len(elements) > ELEMENTS_PER_PAUSE else elements


def in_steps(elements: Collection[T]) -> Iterable[T]:
    """Return the elements for an iteration; if there are many, a copy that pauses.

    A set or a view of a dict is copied in any case: it must not change while it is iterated over,
    and the code that iterates may pause.
    """
    if len(elements) > ELEMENTS_PER_PAUSE and elements.__class__ is not PausingList:
        return iterate_with_pauses(tuple(elements))
    return elements if elements.__class__ in _SEQUENCES else tuple(elements)


def items_in_steps(elements: Mapping[K, V]) -> Iterable[tuple[K, V]]:
    """Return the items of a mapping that does not change, for an iteration that pauses.

    `in_steps` would create all items at once.
    """
    if len(elements) > ELEMENTS_PER_PAUSE:
        return ((key, elements[key]) for key in iterate_with_pauses(tuple(elements)))
    return elements.items()


def pop_items(elements: dict[K, V]) -> Iterator[tuple[K, V]]:
    """Yield and remove the items of a dict in order, so that each can be freed before the next."""
    keys = list(elements)
    keys.reverse()
    while keys:
        key = keys.pop()
        yield key, elements.pop(key)


def iterate_with_pauses(elements: Iterable[T]) -> Iterator[T]:
    """Yield the elements, and pause every ELEMENTS_PER_PAUSE of them."""
    remaining = ELEMENTS_PER_PAUSE
    for element in elements:
        yield element
        remaining -= 1
        if not remaining:
            remaining = ELEMENTS_PER_PAUSE
            pause()


def clear_in_steps(elements: list[Any] | dict[Any, Any]) -> None:
    """Empty a list or dict that is not needed any more; pause if it is long.

    Python would free all elements at once.
    """
    while len(elements) > ELEMENTS_PER_PAUSE:
        if isinstance(elements, list):
            del elements[-ELEMENTS_PER_PAUSE:]
        else:
            for _ in range(ELEMENTS_PER_PAUSE):
                elements.popitem()
        pause()
    elements.clear()


def chunks(elements: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the elements in chunks of at most `size`, at least one, and pause in between.

    For elements that a state machine decides on: one decision and one append for each chunk.
    """
    if len(elements) <= size:
        yield elements
        return
    for start in range(0, len(elements), size):
        yield elements[start : start + size]
        pause()


def run_in_thread(call: Callable[[], T]) -> T:
    """Run `call` in another thread while other work runs; `call` must not touch shared state.

    Where nothing may pause, `call` is run here.
    """
    worker = current_worker()
    if worker is not None and worker.deadline != inf:
        return cast("T", worker.wait_for(call))
    return call()
