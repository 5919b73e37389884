"""Rewriting requests: recorded ones, in which what the broker invents means the target's.

Where nothing in a request has another meaning, its bytes stay as they are.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from kafkalite.protocol import codec
from kafkalite.replay.mapping import Kind, Scope
from kafkalite.storage.batch import HEAD_SIZE, LENGTH_END, NO_PRODUCER_ID, BatchView
from kafkalite.storage.crc import crc32c

if TYPE_CHECKING:
    from kafkalite.protocol.message import Message
    from kafkalite.replay.mapping import Mapping
    from kafkalite.replay.shapes import Leaf, Shape

_PRODUCER = Struct(">qh")
_PRODUCER_AT = 43
_CRC = Struct(">I")
_CRC_AT = 17
_COVERED_AT = 21
_MAGIC_2 = 2


class Rewriting:
    """Gives recorded requests the target's meaning."""

    __slots__ = ("_changed", "_meaning")

    def __init__(self, meaning: Mapping) -> None:
        self._meaning = meaning
        self._changed = False

    def concerns(self, shape: Shape) -> bool:
        """Whether anything in requests of a shape could mean something else."""
        moved = self._meaning.moved
        if not moved:
            return False
        kinds = shape.kinds
        return (
            not kinds.isdisjoint(moved)
            or (Kind.OPAQUE in kinds and Kind.MEMBER in moved)
            or (Kind.RECORDS in kinds and bool(moved & _IN_BATCHES))
        )

    def rewrite(self, shape: Shape, request: Message) -> bool:
        """Give a parsed request the target's meaning in place; return whether anything changed."""
        self._changed = False
        self._struct(shape, request, Scope())
        return self._changed

    def _struct(self, shape: Shape, message: Any, outer: Scope) -> None:  # noqa: ANN401 - any struct
        scope = shape.scope(message, outer, self._meaning)
        for leaf in shape.leaves:
            if leaf.mask.kind is None:
                continue
            value = getattr(message, leaf.name)
            if value is None:
                continue
            new = self._value(leaf, leaf.mask.kind, value, scope)
            if new != value:
                setattr(message, leaf.name, new)
                self._changed = True
        for branch in shape.branches:
            inner = getattr(message, branch.name)
            for row in (inner or ()) if branch.is_list else (inner,):
                if row is not None:
                    self._struct(branch.shape, row, scope)

    def _value(self, leaf: Leaf, kind: Kind, value: Any, scope: Scope) -> Any:  # noqa: ANN401 - any value
        meaning = self._meaning
        if kind is Kind.RECORDS:
            return self.batches(bytes(value))
        if kind is Kind.OPAQUE:
            return meaning.opaque(bytes(value))
        if leaf.is_list:
            return [meaning.translate(kind, scope, each) for each in value]
        return meaning.translate(kind, scope, value)

    def batches(self, data: bytes) -> bytes:
        """Return record batches whose producers are the target's, with their new checksums."""
        if not self._meaning.moved & _IN_BATCHES:
            return data
        out = bytearray(data)
        position = 0
        while position + HEAD_SIZE <= len(out):
            batch = BatchView(memoryview(data)[position:])
            end = position + LENGTH_END + batch.length
            if batch.magic != _MAGIC_2 or batch.length < 0 or end > len(out):
                break
            if batch.producer_id > NO_PRODUCER_ID:
                self._replace_producer(out, position, end, batch)
            position = end
        return bytes(out)

    def _replace_producer(self, out: bytearray, position: int, end: int, batch: BatchView) -> None:
        scope = Scope(producer=batch.producer_id)
        translate = self._meaning.translate
        producer_id = translate(Kind.PRODUCER_ID, scope, batch.producer_id)
        epoch = translate(Kind.PRODUCER_EPOCH, scope, batch.producer_epoch)
        if (producer_id, epoch) == (batch.producer_id, batch.producer_epoch):
            return
        covered = position + _COVERED_AT
        # A batch that was broken when it was recorded stays so: the target is to refuse it too.
        was_right = crc32c(memoryview(out)[covered:end], 0) == batch.crc
        _PRODUCER.pack_into(out, position + _PRODUCER_AT, producer_id, epoch)
        if was_right:
            _CRC.pack_into(out, position + _CRC_AT, crc32c(memoryview(out)[covered:end], 0))


_IN_BATCHES = frozenset((Kind.PRODUCER_ID, Kind.PRODUCER_EPOCH))


def frame_of(request: bytes, start: int, message: Message, api_key: int, version: int) -> bytes:
    """Return a frame without its length: the recorded header, and the message as its body."""
    out: list[bytes | memoryview] = [request[:start]]
    codec.request_builder(api_key, version)(message, out)
    return b"".join(out)
