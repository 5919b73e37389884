"""Hostile but well-formed requests, generated from the schemas of all APIs that are served.

For each version of an API, each list, each field of bytes and each section of tagged fields is
filled in turn, at any depth, also that of the header. The rest of a request is valid, where a
valid request is known.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalite.apis.table import TABLE
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec_helpers import encode_varint
from kafkalite.protocol.primitives import KafkaArray, KafkaBytes, KafkaString, KafkaStruct
from kafkalite.protocol.schema import message_tree
from kafkalite.protocol.spec import load_spec, snake_case
from tests.unit.apis.authorization.requests import CASES as REQUESTS
from tests.unit.apis.authorization.requests import request_of, versions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from construct import Construct

    from kafkalite.protocol.message import Message

TOPIC_IDS: Final = {name: bytes([7]) * 16 for name in ("topic", "other")}
LIST: Final = "list"
BYTES: Final = "bytes"
TAGS: Final = "tagged fields"
HEADER_TAGS: Final = f"header {TAGS}"

_CLIENT_ID: Final = b"hostile"
_FIRST_UNKNOWN_TAG: Final = 64
_UUID_BYTES: Final = 16
_HEARTBEATS_OF_MEMBERS: Final = frozenset(
    {
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
    }
)


class Place(NamedTuple):
    """A part of a request that can be filled, such as `topics.partitions`."""

    key: int
    version: int
    path: str
    kind: str
    """LIST, BYTES or TAGS."""

    def __str__(self) -> str:
        return f"{codec.api_name(self.key)} v{self.version} {self.path}"


def places(key: int, version: int) -> list[Place]:
    """Return the parts of one version's requests that can be filled."""
    paths = list(_paths(_tree(key, version)))
    if codec.is_flexible(key, version):
        paths.insert(0, (HEADER_TAGS, TAGS))
    return [Place(key, version, path, kind) for path, kind in paths]


def all_places(key: int) -> list[Place]:
    """Return the places of all served versions of an API."""
    row = TABLE[key]
    versions = range(row.lowest, row.highest + 1)
    return [place for version in versions for place in places(key, version)]


def distinct_places(key: int) -> list[Place]:
    """Return each place of an API once, in the newest version that has it."""
    return list({place.path: place for place in all_places(key)}.values())


def hostile_frame(
    place: Place, size_bytes: int, max_elements: int = 1 << 40, *, are_equal: bool = False
) -> bytes:
    """Return a request of about `size_bytes` with its length, filled at `place`.

    A list gets at most `max_elements` elements, which are distinct unless `are_equal`.
    """
    key, version, path, _ = place
    filler = _Filler(path, size_bytes, max_elements, are_equal=are_equal)
    header = struct.pack(">hhih", key, version, 1, len(_CLIENT_ID)) + _CLIENT_ID
    if codec.is_flexible(key, version):
        header += filler.tags() if path == HEADER_TAGS else b"\0"
    body = filler.encode(_tree(key, version), _known_request(key, version), "")
    return struct.pack(">i", len(header) + len(body)) + header + body


def body_start(place: Place) -> int:
    """Return the position of the body in a frame whose header has no tagged fields."""
    return 14 + len(_CLIENT_ID) + codec.is_flexible(place.key, place.version)


@cache
def _tree(key: int, version: int) -> KafkaStruct:
    return message_tree(load_spec("apis", f"{snake_case(codec.api_name(key))}_request"), version)


def _joining_member(key: int) -> Message:
    request = codec.request_class(key)
    joining: Message
    if key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
        joining = request(
            group_id="consumers",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["topic"],
            topic_partitions=[],
        )
    elif key == ApiKey.SHARE_GROUP_HEARTBEAT:
        joining = request(
            group_id="sharers", member_id="m", member_epoch=0, subscribed_topic_names=["topic"]
        )
    else:
        topology = request.Topology(
            epoch=1,
            subtopologies=[request.Subtopology(subtopology_id="0", source_topics=["topic"])],
        )
        joining = request(
            group_id="streams",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            process_id="p",
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            client_tags=[],
            topology=topology,
        )
    return joining


@cache
def _known_request(key: int, version: int) -> Message:
    """Return a valid request, or one with default values if none is known."""
    if key in _HEARTBEATS_OF_MEMBERS:
        return _joining_member(key)
    for case in REQUESTS:
        if case.key == key and version in versions_of(case):
            return request_of(case, version, TOPIC_IDS)
    default: Message = codec.request_class(key)()
    return default


def _paths(tree: KafkaStruct, prefix: str = "") -> Iterator[tuple[str, str]]:
    shape = tree.shape
    named = [(field.name, field.subcon) for field in shape.fields]
    named += [(tagged.attribute, tagged.subcon) for tagged in shape.tagged.values()]
    for name, node in named:
        path = f"{prefix}{name}"
        if isinstance(node, KafkaArray | KafkaBytes):
            yield path, LIST if isinstance(node, KafkaArray) else BYTES
        inner = node.subcon if isinstance(node, KafkaArray) else node
        if isinstance(inner, KafkaStruct):
            yield from _paths(inner, f"{path}.")
    if shape.flexible:
        yield f"{prefix}{TAGS}", TAGS


class _Filler:
    """Encodes a request, and fills the place at `target`."""

    def __init__(self, target: str, size_bytes: int, max_elements: int, *, are_equal: bool) -> None:
        self._are_equal = are_equal
        self._target = target
        self._size_bytes = size_bytes
        self._max_elements = max_elements

    def encode(self, node: Construct, value: Any, path: str) -> bytes:  # noqa: ANN401 - any field
        if isinstance(node, KafkaStruct):
            return self._encode_struct(node, value, path)
        if isinstance(node, KafkaArray):
            return self._encode_array(node, value, path)
        if isinstance(node, KafkaBytes) and path == self._target:
            value = bytes(self._size_bytes)
        return bytes(node.build(value))

    def tags(self) -> bytes:
        """Return a section with tagged fields without content."""
        first = _FIRST_UNKNOWN_TAG
        if self._are_equal:
            count = min(self._max_elements, self._size_bytes // 2)
            return encode_varint(count) + bytes((first, 0)) * count
        count = min(self._max_elements, self._size_bytes // 4)
        fields = (encode_varint(tag) + b"\0" for tag in range(first, first + count))
        return encode_varint(count) + b"".join(fields)

    def _is_below(self, path: str) -> bool:
        return self._target == path or self._target.startswith(f"{path}.")

    def _encode_struct(self, node: KafkaStruct, value: Any, path: str) -> bytes:  # noqa: ANN401
        shape = node.shape
        out = []
        if shape.nullable:
            if value is None and not self._is_below(path):
                return b"\0" if shape.is_tagged else b"\xff"
            out.append(b"\1")
        if value is None:
            value = shape.message.load()()
        for field in shape.fields:
            inner = f"{path}.{field.name}".lstrip(".")
            out.append(self.encode(field.subcon, getattr(value, field.name), inner))
        if shape.flexible:
            out.append(self._encode_tags(node, value, path))
        return b"".join(out)

    def _encode_tags(self, node: KafkaStruct, value: Any, path: str) -> bytes:  # noqa: ANN401
        if f"{path}.{TAGS}".lstrip(".") == self._target:
            return self.tags()
        for tag, tagged in node.shape.tagged.items():
            inner = f"{path}.{tagged.attribute}".lstrip(".")
            if self._is_below(inner):
                section = self.encode(tagged.subcon, getattr(value, tagged.attribute), inner)
                return b"".join((b"\1", encode_varint(tag), encode_varint(len(section)), section))
        return b"\0"

    def _encode_array(self, node: KafkaArray, value: Any, path: str) -> bytes:  # noqa: ANN401
        if path == self._target:
            return self._encode_long_list(node, value)
        if not value and self._is_below(path):
            value = [_element(node.subcon)]
        elif value is None:
            return bytes(node.build(None))
        elements = [self.encode(node.subcon, element, path) for element in value]
        return _length(node, len(elements)) + b"".join(elements)

    def _encode_long_list(self, node: KafkaArray, value: Any) -> bytes:  # noqa: ANN401
        sample = value[0] if value else _element(node.subcon)
        if self._are_equal:
            row = self.encode(node.subcon, sample, f"?{self._target}")
            count = max(1, min(self._max_elements, self._size_bytes // len(row)))
            return _length(node, count) + row * count
        before, encode, after = self._template(node.subcon, sample)
        size = len(before) + len(encode(1 << 20)) + len(after)
        count = max(1, min(self._max_elements, self._size_bytes // size))
        rows = b"".join([before + encode(number) + after for number in range(count)])
        return _length(node, count) + rows

    def _template(
        self,
        node: Construct,
        sample: Any,  # noqa: ANN401
    ) -> tuple[bytes, Callable[[int], bytes], bytes]:
        """Return the bytes before, of and after the part in which the elements differ."""
        if not isinstance(node, KafkaStruct):
            return b"", _distinct(node), b""
        parts = [
            self.encode(field.subcon, getattr(sample, field.name), f"?{field.name}")
            for field in node.shape.fields
        ]
        end = b"\0" if node.shape.flexible else b""
        start = b"\1" if node.shape.nullable else b""
        for index, field in enumerate(node.shape.fields):
            if _is_distinguishing(field.subcon, getattr(sample, field.name)):
                before = start + b"".join(parts[:index])
                return before, _distinct(field.subcon), b"".join(parts[index + 1 :]) + end
        whole = start + b"".join(parts) + end
        return whole, lambda _: b"", b""


def _is_distinguishing(node: Construct, sample: Any) -> bool:  # noqa: ANN401
    if isinstance(node, KafkaString):
        return sample is not None
    return _size(node) in {4, 8, 16}


def _size(node: Construct) -> int:
    if isinstance(node, KafkaString | KafkaBytes | KafkaArray | KafkaStruct):
        return 0
    return int(node.sizeof())


def _distinct(node: Construct) -> Callable[[int], bytes]:
    """Return a function that encodes a value for a number."""
    if isinstance(node, KafkaString):
        if node.compact:
            return lambda number: (name := b"%x" % number) and bytes((len(name) + 1,)) + name
        return lambda number: (name := b"%x" % number) and bytes((0, len(name))) + name
    size = _size(node)
    return lambda number: (number % (1 << min(31, 8 * size))).to_bytes(size)


def _element(node: Construct) -> Any:  # noqa: ANN401 - an element of any list
    if isinstance(node, KafkaStruct):
        return node.shape.message.load()()
    if isinstance(node, KafkaString):
        return "x"
    return bytes(_UUID_BYTES) if _size(node) == _UUID_BYTES else 0


def _length(node: KafkaArray, count: int) -> bytes:
    return encode_varint(count + 1) if node.compact else struct.pack(">i", count)
