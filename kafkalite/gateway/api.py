"""Api: the data with which a module of handlers registers an API at the gateway.

Handlers look up the traits of a version and never compare versions. An era has the traits of a
range of versions; `lift` and `lower` convert between the structures of versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol import codec
from kafkalite.protocol.codec_helpers import MAX_LIST_ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.protocol.error_codes import ErrorCode
    from kafkalite.protocol.versions import Versions

T = TypeVar("T")

MAX_ELEMENTS_AT_ONCE = 20_000
"""The maximum number of elements that are handled without a pause.

Kafka refuses such requests at fewer elements, because a controller writes at most 10,000 records
for a request, and the record of a member must fit in `message.max.bytes`. Some are not written.
"""

MAX_ELEMENTS_WITH_PARTITIONS = 50_000
"""The same for commits of offsets, heartbeats of consumers, and CreateTopics.

Their partitions have small records. Kafka serves a commit of up to 17,000 topics with one partition
each, which has 34,000 elements, and creates 10,000 partitions whose replicas are given.
"""

MAX_ELEMENTS_WITH_OWN_LIMITS = 300_000
"""The same for requests whose handlers answer an error above limits of their own.

A share session may have 250,000 partitions, and a heartbeat of a streams group 100,000 elements.
"""


class Eras(Generic[T]):
    """Traits by version: `Eras((0, a), (9, b))` has `a` for versions 0 to 8 and `b` from 9 on."""

    __slots__ = ("_latest", "_traits")

    def __init__(self, *ranges: tuple[int, T]) -> None:
        self._traits: list[T] = []
        """By version, for the versions before those of `_latest`."""
        self._latest = ranges[0][1]
        for first_version, traits in ranges:
            self._traits += [self._latest] * (first_version - len(self._traits))
            self._latest = traits

    def at(self, version: int) -> T:
        """Return the traits of `version`."""
        return self._traits[version] if version < len(self._traits) else self._latest


class Api(NamedTuple):
    """One API as served.

    `handler(call, request)` returns the response, a Waiting for it, or None if the protocol has no
    answer. It raises KafkaError to refuse the request.
    """

    key: int
    versions: Versions
    handler: Callable[..., Any]
    refusal: Callable[..., Any] | None = None
    """(request, code, message) → the response with an error for the whole request.

    None if it follows from the rows in the catalogue, which is the normal case.
    """
    eras: Eras[Any] | None = None
    lift: Callable[[Any, int], Any] | None = None
    """(request, version) → the request in the structure of the latest version."""
    lower: Callable[[Any, int], Any] | None = None
    """(response, version) → the response in the structure of this version."""
    is_repeated: bool = False
    """Whether clients repeat the same request, so that its decoded form is cached.

    The handler must not change the request, nor an answer that it returns more than once. Answers
    are small, because the bytes of the last one are cached too.
    """

    is_batched: bool = False
    """Whether requests that arrive together are written to the groups' log as one batch.

    The handler neither pauses nor waits. No record that it writes is more than 512 bytes longer
    than the request.
    """

    inline_bytes: int = 1024
    """The maximum size of a request that is served when it is read, because it takes little time.

    Longer requests are served in a worker, which pauses for other requests. The value is 0 if the
    answer may be long even for a short request.
    """

    max_elements: int = MAX_LIST_ELEMENTS
    """The maximum number of elements in all lists of a request together.

    Requests with more are refused. It is one of the constants above if a request is not handled
    one element at a time: others wait meanwhile.
    """

    is_inline_with_short_lists: bool = False
    """Whether requests of any size with short lists are served when they are read."""

    other_pausing_lists: frozenset[str] = frozenset()
    """Lists in requests that pause like the rows in the catalogue: see `pausing_lists`."""

    may_take_long: Callable[[Any, Any], bool] | None = None
    """(call, request) → whether a request is served in a worker regardless of its size."""

    check_first: Callable[[Any, Any], None] | None = None
    """(call, request) → None; raises the KafkaError that has precedence over missing permissions.

    The handler raises it as well.
    """

    @property
    def pausing_lists(self) -> frozenset[str]:
        """The fields of requests whose elements the handler uses one by one.

        A long list in such a field, in a request that is served in a worker, is a `PausingList`:
        other requests are served while it is iterated.
        """
        from kafkalite.protocol.catalogue import ROWS  # noqa: PLC0415 - only for long requests

        rows = ROWS[self.key].rows
        return self.other_pausing_lists.union(() if rows is None else rows.requested.split("."))

    @property
    def name(self) -> str:
        """Kafka's name of the API."""
        return codec.api_name(self.key)

    def refuse(self, request: object, code: ErrorCode, message: str | None) -> Any:  # noqa: ANN401 - any response
        """Return the response with an error in the API's own fields."""
        if self.refusal is not None:
            return self.refusal(request, code, message)
        from kafkalite.protocol.rows import refusal  # noqa: PLC0415 - few requests are refused

        return refusal(self.key, request, code, message)
