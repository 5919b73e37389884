"""Rewriting of responses, so that they have the proxy's addresses instead of the cluster's.

Only responses of APIs with address fields are decoded. A response without an address is forwarded
unchanged. An unknown version of these APIs may have addresses in new fields, through which clients
would bypass the proxy. So unknown versions are removed from ApiVersions responses, and a request in
such a version closes the connection.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol import catalogue, codec
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsResponse
from kafkalite.protocol.codec import API_VERSIONS_KEY
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from kafkalite.wire.frames import LENGTH_BYTES
from kafkalite.wire.headers import skip_tagged_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.protocol.catalogue import Row

    GetProxyAddresses = Callable[[Sequence["NodeAddress"]], Sequence[Address]]
    """A function that returns the proxy's address for each node; raises ProtocolViolation."""
    FindAddressFields = Callable[[Any], Sequence["AddressField"]]

BROKER_ENDPOINT_TYPE = 1
"""DescribeCluster's endpoint type of brokers; other APIs return brokers only."""

CORRELATION_BYTES = 4
PREFIX_BYTES = LENGTH_BYTES + CORRELATION_BYTES
"""Size of the length and the correlation id at the start of a response."""

_OLDEST_VERSION = 0
_EMPTY_HOST = ""
_CACHE_SIZE = 512  # bounded, because clients choose the key and version
_LENGTH = Struct(">i").pack
_UNSUPPORTED_VERSION = Struct(">h").pack(ErrorCode.UNSUPPORTED_VERSION)


class Node(NamedTuple):
    """A node of the cluster: its id and its endpoint type."""

    node_id: int
    endpoint_type: int = BROKER_ENDPOINT_TYPE


class NodeAddress(NamedTuple):
    """A node, and its address in the cluster."""

    node: Node
    address: Address


class AddressField(NamedTuple):
    """A struct in a response with the fields `host` and `port`, and the node at this address."""

    struct: Any
    node: Node


class AddressFields(NamedTuple):
    """The address fields of an API's responses, and the first version that has them."""

    since_version: int
    find: FindAddressFields


def _find_function(row: Row) -> FindAddressFields:
    """Return the function that finds the address fields in responses of an API."""
    fields = catalogue.endpoints(row)

    def find(response: Any) -> Sequence[AddressField]:  # noqa: ANN401 - a response of the API
        # Fields that a version does not have are empty; only DescribeCluster returns controllers.
        endpoint_type = getattr(response, "endpoint_type", BROKER_ENDPOINT_TYPE)
        return [
            AddressField(struct, Node(getattr(struct, node_id), endpoint_type))
            for path, node_id in fields
            for struct in (getattr(response, path) if path else (response,))
        ]

    return find


ADDRESS_FIELDS: Mapping[int, AddressFields] = {
    key: AddressFields(row.endpoints_since, _find_function(row))
    for key, row in catalogue.ROWS.items()
    if row.endpoints
}
"""API key → the address fields of its responses."""


def allowed_versions(api_key: int) -> Versions:
    """Return the versions of an API that the proxy forwards.

    For an API with address fields these are the known versions, for other APIs all versions.
    """
    if api_key == API_VERSIONS_KEY:
        return codec.api_versions(api_key)
    fields = ADDRESS_FIELDS.get(api_key)
    if fields is None:
        return Versions(_OLDEST_VERSION)
    known = codec.api_versions(api_key, unstable=True)
    return Versions(
        _OLDEST_VERSION if fields.since_version > known.lowest else known.lowest, known.highest
    )


@lru_cache(_CACHE_SIZE)
def find_rewriter(api_key: int, version: int) -> Rewriter | None:
    """Return the rewriter for responses of an API version; None if they are forwarded unchanged.

    Raises ProtocolViolation for a version whose responses may have unknown address fields.
    """
    if api_key == API_VERSIONS_KEY:
        return ApiVersionsRewriter(version)
    if version not in allowed_versions(api_key):
        name = codec.api_name(api_key)
        raise ProtocolViolation(
            f"{name} v{version}: the proxy cannot rewrite the addresses in its response; "
            f"it supports versions {allowed_versions(api_key)}"
        )
    fields = ADDRESS_FIELDS.get(api_key)
    if fields is None or version not in Versions(fields.since_version):
        return None
    return AddressRewriter(api_key, version, fields.find)


class Rewriter:
    """Rewrites the responses of one version of an API."""

    __slots__ = ("_api_key", "_has_tags", "_parser", "_version")

    def __init__(self, api_key: int, version: int) -> None:
        self._api_key = api_key
        self._version = version
        self._has_tags = codec.response_header_version(api_key, version) > 0
        self._parser = codec.response_parser(api_key, version)

    def rewrite(self, frame: bytes, proxy_addresses: GetProxyAddresses) -> bytes:
        """Return the rewritten frame, with its length prefix; raises ProtocolViolation."""
        raise NotImplementedError

    def _parse_frame(self, frame: bytes) -> tuple[Any, int, int]:
        """Return the response, and the positions of its start and end."""
        try:
            start = PREFIX_BYTES
            if self._has_tags:
                start = skip_tagged_fields(frame, start, len(frame))
            response, end = self._parser(frame, start, len(frame))
        except codec.PARSE_ERRORS as error:
            name = codec.api_name(self._api_key)
            raise ProtocolViolation(
                f"cannot parse the response to {name} v{self._version}: {error}"
            ) from error
        return response, start, end

    def _build_frame(self, response: Any, frame: bytes, start: int, end: int) -> bytes:  # noqa: ANN401
        """Return the frame with `response` as its body; header and trailing bytes are unchanged."""
        body: list[bytes | memoryview] = []
        codec.response_builder(self._api_key, self._version)(response, body)
        content = b"".join((frame[LENGTH_BYTES:start], *body, frame[end:]))
        return _LENGTH(len(content)) + content


class AddressRewriter(Rewriter):
    """Replaces the cluster's addresses by the proxy's; all other fields are unchanged."""

    __slots__ = ("_find",)

    def __init__(self, api_key: int, version: int, find: FindAddressFields) -> None:
        super().__init__(api_key, version)
        self._find = find

    def rewrite(self, frame: bytes, proxy_addresses: GetProxyAddresses) -> bytes:
        """Return the frame with the proxy's addresses; the same frame if it has no address."""
        response, start, end = self._parse_frame(frame)
        # A coordinator that is not available has an empty host.
        fields = [field for field in self._find(response) if field.struct.host != _EMPTY_HOST]
        if not fields:
            return frame
        node_addresses = [
            NodeAddress(node, Address(struct.host, struct.port)) for struct, node in fields
        ]
        for (struct, _), address in zip(fields, proxy_addresses(node_addresses), strict=True):
            struct.host, struct.port = address.host, address.port
        return self._build_frame(response, frame, start, end)


class ApiVersionsRewriter(Rewriter):
    """Removes versions from ApiVersions responses if they may have unknown address fields."""

    __slots__ = ("_is_known",)

    def __init__(self, version: int) -> None:
        self._is_known = version in allowed_versions(API_VERSIONS_KEY)
        super().__init__(API_VERSIONS_KEY, version if self._is_known else _OLDEST_VERSION)

    def rewrite(self, frame: bytes, proxy_addresses: GetProxyAddresses) -> bytes:  # noqa: ARG002 - it has no addresses
        """Return the frame with the allowed versions only; the same frame if it has no others.

        An ApiVersions request in an unknown version gets UNSUPPORTED_VERSION with the known
        versions, as from a broker, and the client retries with one of these (KIP-511).
        """
        if not self._is_known:
            return self._build_frame(
                _unsupported_version_response(), frame, PREFIX_BYTES, len(frame)
            )
        if frame.startswith(_UNSUPPORTED_VERSION, PREFIX_BYTES):
            return frame  # the cluster is older than the client, and responds in version 0
        response, start, end = self._parse_frame(frame)
        allowed = [row for row in map(_clip_versions, response.api_keys) if row is not None]
        if allowed == response.api_keys:
            return frame
        response.api_keys = allowed
        return self._build_frame(response, frame, start, end)


def _clip_versions(row: ApiVersionsResponse.ApiVersion) -> ApiVersionsResponse.ApiVersion | None:
    """Return the row with the allowed versions only; None if there is none."""
    allowed = allowed_versions(row.api_key)
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


def _unsupported_version_response() -> ApiVersionsResponse:
    allowed = allowed_versions(API_VERSIONS_KEY)
    row = ApiVersionsResponse.ApiVersion(
        api_key=API_VERSIONS_KEY, min_version=allowed.lowest, max_version=allowed.highest
    )
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[row])
