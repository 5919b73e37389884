"""Rewriting: answers that tell where nodes are, made to tell where the proxy listens for them.

Only answers that carry addresses are decoded, and of these, those that name no node go on as they
came. A version that has addresses where we know none to be would lead clients past the proxy: so
they are told of no version above those we know, of exactly these APIs, and who asks for one all the
same is sent away.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.messages.api_versions import ApiVersionsResponse
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from kafkalite.wire.frames import LENGTH_BYTES
from kafkalite.wire.headers import API_VERSIONS_KEY, skip_tagged_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Tell = Callable[[Sequence["Known"]], Sequence[Address]]
    """Says for each of these nodes where clients shall go instead; ProtocolViolation."""
    Places = Callable[[Any], Sequence["Place"]]

BROKERS = 1
"""A kind of endpoint as DescribeCluster numbers them; other APIs tell of brokers alone."""

CORRELATION_BYTES = 4
HEAD_BYTES = LENGTH_BYTES + CORRELATION_BYTES
"""A response's length and its correlation id."""

_OLDEST = 0
_NO_HOST = ""
_REMEMBERED = 512  # found by numbers that clients write, who may write any
_LENGTH = Struct(">i").pack
_UNSUPPORTED_VERSION = Struct(">h").pack(ErrorCode.UNSUPPORTED_VERSION)


class Node(NamedTuple):
    """A node of the cluster: its id, among those of its kind."""

    node_id: int
    kind: int = BROKERS


class Known(NamedTuple):
    """A node, and where the cluster says it is."""

    node: Node
    address: Address


class Place(NamedTuple):
    """Where an answer tells an address: what has the host and the port, and of which node."""

    row: Any
    node: Node


class Addressed(NamedTuple):
    """An API whose answers tell addresses: since which version, and where."""

    since: int
    places: Places


def _brokers(response: Any) -> Sequence[Place]:  # noqa: ANN401 - its class is found by number
    return [Place(row, Node(row.node_id)) for row in response.brokers]


def _node_endpoints(response: Any) -> Sequence[Place]:  # noqa: ANN401 - as above
    return [Place(row, Node(row.node_id)) for row in response.node_endpoints]


def _coordinators(response: Any) -> Sequence[Place]:  # noqa: ANN401 - as above
    """Give the one of early versions and those of later ones: what a version lacks is empty."""
    return [Place(row, Node(row.node_id)) for row in (response, *response.coordinators)]


def _endpoints(response: Any) -> Sequence[Place]:  # noqa: ANN401 - as above
    kind = response.endpoint_type
    return [Place(row, Node(row.broker_id, kind)) for row in response.brokers]


ADDRESSED: Mapping[int, Addressed] = {
    0: Addressed(10, _node_endpoints),  # Produce, KIP-951
    1: Addressed(16, _node_endpoints),  # Fetch, KIP-951
    3: Addressed(_OLDEST, _brokers),  # Metadata
    10: Addressed(_OLDEST, _coordinators),  # FindCoordinator
    60: Addressed(_OLDEST, _endpoints),  # DescribeCluster
    78: Addressed(_OLDEST, _node_endpoints),  # ShareFetch
    79: Addressed(_OLDEST, _node_endpoints),  # ShareAcknowledge
}
"""API key → where its answers tell addresses."""


def passable(api_key: int) -> Versions:
    """Return the versions in which an API may pass: all, unless it tells addresses."""
    if api_key == API_VERSIONS_KEY:
        return codec.api_versions(api_key)
    addressed = ADDRESSED.get(api_key)
    if addressed is None:
        return Versions(_OLDEST)
    known = codec.api_versions(api_key, unstable=True)
    return Versions(_OLDEST if addressed.since > known.lowest else known.lowest, known.highest)


@lru_cache(_REMEMBERED)
def rewriter_of(api_key: int, version: int) -> Rewriter | None:
    """Return what rewrites the answers to these requests, None for those that go on untouched.

    ProtocolViolation for a version whose answers might tell addresses that we do not see.
    """
    if api_key == API_VERSIONS_KEY:
        return ApiVersionsRewriter(version)
    if version not in passable(api_key):
        name = codec.api_name(api_key)
        raise ProtocolViolation(
            f"{name} of version {version}: its answer would lead past this proxy, which knows "
            f"versions {passable(api_key)}"
        )
    addressed = ADDRESSED.get(api_key)
    if addressed is None or version not in Versions(addressed.since):
        return None
    return AddressRewriter(api_key, version, addressed.places)


class Rewriter:
    """Makes one version of an API's answers fit for clients."""

    __slots__ = ("_api_key", "_has_tags", "_parse", "_version")

    def __init__(self, api_key: int, version: int) -> None:
        self._api_key = api_key
        self._version = version
        self._has_tags = codec.response_header_version(api_key, version) > 0
        self._parse = codec.response_parser(api_key, version)

    def rewrite(self, frame: bytes, tell: Tell) -> bytes:
        """Return the frame, its length included, as clients may see it; ProtocolViolation."""
        raise NotImplementedError

    def _parsed(self, frame: bytes) -> tuple[Any, int, int]:
        """Return the response, where it begins, and where it ends."""
        try:
            start = HEAD_BYTES
            if self._has_tags:
                start = skip_tagged_fields(frame, start, len(frame))
            response, end = self._parse(frame, start, len(frame))
        except codec.PARSE_ERRORS as error:
            name = codec.api_name(self._api_key)
            raise ProtocolViolation(
                f"the answer to {name} of version {self._version} cannot be understood: {error}"
            ) from error
        return response, start, end

    def _built(self, response: Any, frame: bytes, start: int, end: int) -> bytes:  # noqa: ANN401
        """Return the frame with another body: what stands around it stays."""
        body: list[bytes | memoryview] = []
        codec.response_builder(self._api_key, self._version)(response, body)
        whole = b"".join((frame[LENGTH_BYTES:start], *body, frame[end:]))
        return _LENGTH(len(whole)) + whole


class AddressRewriter(Rewriter):
    """Replaces the cluster's addresses by the proxy's, and nothing else."""

    __slots__ = ("_places",)

    def __init__(self, api_key: int, version: int, places: Places) -> None:
        super().__init__(api_key, version)
        self._places = places

    def rewrite(self, frame: bytes, tell: Tell) -> bytes:
        """Return the frame with other addresses, or as it was when it tells none."""
        response, start, end = self._parsed(frame)
        # A coordinator that is not there has no host.
        places = [place for place in self._places(response) if place.row.host != _NO_HOST]
        if not places:
            return frame
        known = [Known(node, Address(row.host, row.port)) for row, node in places]
        for (row, _), address in zip(places, tell(known), strict=True):
            row.host, row.port = address.host, address.port
        return self._built(response, frame, start, end)


class ApiVersionsRewriter(Rewriter):
    """Leaves out the versions whose answers might tell addresses that we do not see."""

    __slots__ = ("_is_known",)

    def __init__(self, version: int) -> None:
        self._is_known = version in passable(API_VERSIONS_KEY)
        super().__init__(API_VERSIONS_KEY, version if self._is_known else _OLDEST)

    def rewrite(self, frame: bytes, tell: Tell) -> bytes:  # noqa: ARG002 - it tells no addresses
        """Return the frame with fewer versions, or as it was when it has none too many.

        To a version newer than ours goes what a broker would answer to whom it is too new: the
        client asks once more, in a version that it is told (KIP-511).
        """
        if not self._is_known:
            return self._built(_too_new(), frame, HEAD_BYTES, len(frame))
        if frame.startswith(_UNSUPPORTED_VERSION, HEAD_BYTES):
            return frame  # the cluster is older than the client, and answers in version 0
        response, start, end = self._parsed(frame)
        passing = [row for row in map(_clipped, response.api_keys) if row is not None]
        if passing == response.api_keys:
            return frame
        response.api_keys = passing
        return self._built(response, frame, start, end)


def _clipped(row: ApiVersionsResponse.ApiVersion) -> ApiVersionsResponse.ApiVersion | None:
    """Return the row without versions that may not pass; None when none of them may."""
    allowed = passable(row.api_key)
    lowest = max(row.min_version, allowed.lowest)
    highest = min(row.max_version, allowed.highest)
    if lowest > highest:
        return None
    if (lowest, highest) == (row.min_version, row.max_version):
        return row
    clipped = ApiVersionsResponse.ApiVersion(
        api_key=row.api_key, min_version=lowest, max_version=highest
    )
    clipped.unknown_tags = row.unknown_tags
    return clipped


def _too_new() -> ApiVersionsResponse:
    ours = passable(API_VERSIONS_KEY)
    row = ApiVersionsResponse.ApiVersion(
        api_key=API_VERSIONS_KEY, min_version=ours.lowest, max_version=ours.highest
    )
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[row])
