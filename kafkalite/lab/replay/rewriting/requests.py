"""`RequestRewriter`: translates ids and counters in recorded requests to those of the target.

The bytes of a request without a translated value stay as they are.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from kafkalite.lab.replay.rewriting.id_mapping import EPOCH_KINDS, Scope, ValueKind
from kafkalite.protocol import codec
from kafkalite.storage.batch import HEADER_SIZE, LENGTH_END, NO_PRODUCER_ID, BatchView
from kafkalite.storage.crc import crc32c

if TYPE_CHECKING:
    from kafkalite.lab.replay.comparison.shapes import Leaf, Shape
    from kafkalite.lab.replay.rewriting.id_mapping import IdMapping
    from kafkalite.protocol.message import Message

_PRODUCER = Struct(">qh")
_PRODUCER_OFFSET = 43
_CRC = Struct(">I")
_CRC_OFFSET = 17
_CRC_DATA_OFFSET = 21
_MAGIC_2 = 2


class RequestRewriter:
    """Translates recorded requests by an id mapping."""

    __slots__ = ("_changed", "_is_outdated", "_mapping")

    def __init__(self, mapping: IdMapping) -> None:
        self._mapping = mapping
        self._changed = False
        self._is_outdated = False

    def may_change(self, shape: Shape) -> bool:
        """Whether requests of a shape can contain a value that differs at the target."""
        changed = self._mapping.changed_kinds
        if not changed:
            return False
        kinds = shape.kinds
        return (
            not kinds.isdisjoint(changed)
            or (ValueKind.OPAQUE in kinds and ValueKind.MEMBER in changed)
            or (ValueKind.RECORDS in kinds and bool(changed & _BATCH_KINDS))
        )

    def has_changed_epochs(self, shape: Shape) -> bool:
        """Whether requests of a shape can contain an epoch that differs at the target."""
        changed = self._mapping.changed_kinds & EPOCH_KINDS
        return bool(changed) and (
            not shape.kinds.isdisjoint(changed)
            or (ValueKind.RECORDS in shape.kinds and ValueKind.PRODUCER_EPOCH in changed)
        )

    def rewrite(self, shape: Shape, request: Message, *, is_outdated: bool = False) -> bool:
        """Translate a parsed request in place; return whether anything changed.

        `is_outdated` means that the recorded broker refused the request's epoch as old.
        """
        self._changed = False
        self._is_outdated = is_outdated
        self._rewrite_struct(shape, request, Scope())
        return self._changed

    def _rewrite_struct(self, shape: Shape, message: Any, outer: Scope) -> None:  # noqa: ANN401 - any struct
        scope = shape.scope(message, outer, self._mapping)
        for leaf in shape.leaves:
            if leaf.rule.kind is None:
                continue
            value = getattr(message, leaf.name)
            if value is None:
                continue
            new = self._translate_value(leaf, leaf.rule.kind, value, scope)
            if new != value:
                setattr(message, leaf.name, new)
                self._changed = True
        for branch in shape.branches:
            inner = getattr(message, branch.name)
            for row in (inner or ()) if branch.is_list else (inner,):
                if row is not None:
                    self._rewrite_struct(branch.shape, row, scope)

    def _translate_value(self, leaf: Leaf, kind: ValueKind, value: Any, scope: Scope) -> Any:  # noqa: ANN401 - any value
        mapping = self._mapping
        if kind is ValueKind.RECORDS:
            return self.rewrite_batches(bytes(value))
        if kind is ValueKind.OPAQUE:
            return mapping.translate_bytes(bytes(value))
        if leaf.is_list:
            return [mapping.translate(kind, scope, number) for number in value]
        return mapping.translate(kind, scope, value, is_outdated=self._is_outdated)

    def rewrite_batches(self, data: bytes) -> bytes:
        """Return record batches with translated producer ids and epochs, and new checksums."""
        if not self._mapping.changed_kinds & _BATCH_KINDS:
            return data
        out = bytearray(data)
        position = 0
        while position + HEADER_SIZE <= len(out):
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
        translate = self._mapping.translate
        producer_id = translate(ValueKind.PRODUCER_ID, scope, batch.producer_id)
        epoch = translate(
            ValueKind.PRODUCER_EPOCH, scope, batch.producer_epoch, is_outdated=self._is_outdated
        )
        if (producer_id, epoch) == (batch.producer_id, batch.producer_epoch):
            return
        crc_start = position + _CRC_DATA_OFFSET
        # A batch whose recorded checksum is wrong keeps it, so that the target refuses it too.
        had_valid_crc = crc32c(memoryview(out)[crc_start:end], 0) == batch.crc
        _PRODUCER.pack_into(out, position + _PRODUCER_OFFSET, producer_id, epoch)
        if had_valid_crc:
            _CRC.pack_into(out, position + _CRC_OFFSET, crc32c(memoryview(out)[crc_start:end], 0))


_BATCH_KINDS = frozenset((ValueKind.PRODUCER_ID, ValueKind.PRODUCER_EPOCH))


def build_frame(request: bytes, start: int, message: Message, api_key: int, version: int) -> bytes:
    """Return a frame without its length prefix: the recorded header, then the encoded message."""
    out: list[bytes | memoryview] = [request[:start]]
    codec.request_builder(api_key, version)(message, out)
    return b"".join(out)
