"""What an API family hands to the dispatcher: rows of data, one per API.

A version number is looked up, never compared: what a range of versions *means* is an era, what
it *looks like* is a lift and a lower.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.protocol.versions import Versions

T = TypeVar("T")


class Eras(Generic[T]):
    """What ranges of versions mean: `Eras((0, first), (9, second))` turns at version 9."""

    __slots__ = ("_from", "_traits")

    def __init__(self, *turns: tuple[int, T]) -> None:
        self._from = [version for version, _ in turns]
        self._traits = [traits for _, traits in turns]

    def at(self, version: int) -> T:
        """Return the traits in force at `version`."""
        return self._traits[max(0, bisect_right(self._from, version) - 1)]


class Api(NamedTuple):
    """One API as served: its row in the dispatch table.

    `handler(context, request)` returns the response, a Waiting for it, or None where the protocol
    wants no answer. `refuse(request, code, message)` builds the response that says an error in
    this API's own fields, for refusals that the handler raised as KafkaError.
    """

    key: int
    versions: Versions
    handler: Callable[..., Any]
    refuse: Callable[..., Any]
    eras: Eras[Any] | None = None
    lift: Callable[[Any, int], Any] | None = None
    """(request, version) → the request in today's shape."""
    lower: Callable[[Any, int], Any] | None = None
    """(response, version) → the response in the shape this version can carry."""
    is_repeated: bool = False
    """Clients send the very same request over and over: its decoded form is kept and used again.

    The handler must not change the request, nor an answer it gives more than once; and its
    answers are small, for the bytes of the last are kept as well.
    """

    is_gathered: bool = False
    """The handler has records appended by `gather` where the context has a run."""

    @property
    def name(self) -> str:
        """What Kafka calls it."""
        return codec.api_name(self.key)
