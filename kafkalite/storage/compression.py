"""The four compressions of a record batch, framed as Kafka's Java clients read them.

One table, by the number a batch carries in its attributes. cramjam is imported on first use: most
batches pass through the broker closed. None is opened to more than MOST_OPENED_BYTES, which Kafka
need not limit since it reads its streams record by record: nine kilobytes of zstd can hold three
hundred megabytes, and a few of them all the memory there is.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.storage.records import MalformedRecordsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.files import Buffer

MOST_OPENED_BYTES = 100 * 1024 * 1024
"""What the records of a batch may come to: as much as a whole request may bring uncompressed."""

_ROOM = 64 * 1024
_ROOM_GROWTH = 8

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEAD = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_SIZE = 32 * 1024
_INT32 = struct.Struct(">i")

# Magic, version 1 with independent blocks, blocks of at most 64 KiB, and the checksum byte of
# those two. Java's reader refuses blocks that lean on each other, which is what cramjam's own
# frames have, so the frame is made here out of raw blocks.
_LZ4_HEAD = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_SIZE = 64 * 1024
_LZ4_STORED = 0x8000_0000
_LZ4_END = bytes(4)
_UINT32_LE = struct.Struct("<I")


class CompressedDataError(MalformedRecordsError):
    """Compressed bytes that do not decompress."""


class OversizedDataError(CompressedDataError):
    """Compressed bytes that come to more than anybody has use for."""


class Codec(NamedTuple):
    """A compression: its name in configurations, and both directions."""

    name: str
    compress: Callable[[Buffer], bytes]
    decompress: Callable[[Buffer], bytes]


def _gzip_compress(data: Buffer) -> bytes:
    from cramjam import gzip  # noqa: PLC0415 - first use

    return bytes(gzip.compress(data))


def _gzip_decompress(data: Buffer) -> bytes:
    from cramjam import gzip  # noqa: PLC0415 - first use

    return _opened(gzip.decompress_into, data, 1032)


def _zstd_compress(data: Buffer) -> bytes:
    from cramjam import zstd  # noqa: PLC0415 - first use

    return bytes(zstd.compress(data))


def _zstd_decompress(data: Buffer) -> bytes:
    from cramjam import zstd  # noqa: PLC0415 - first use

    return _opened(zstd.decompress_into, data, 32 * 1024)


def _snappy_compress(data: Buffer) -> bytes:
    """Compress in the stream form of the xerial library, which Java clients write."""
    from cramjam import snappy  # noqa: PLC0415 - first use

    view = memoryview(data)
    out = [_XERIAL_HEAD]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        out += (_INT32.pack(len(block)), block)
    return b"".join(out)


def _snappy_decompress(data: Buffer) -> bytes:
    """Decompress the xerial stream form, or one raw block, which librdkafka writes."""
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(view, 0)
    out = []
    opened = 0
    position = len(_XERIAL_HEAD)
    while position < len(view):
        (size,) = _INT32.unpack_from(view, position)
        position += _INT32.size
        if size < 0 or position + size > len(view):
            raise CompressedDataError(f"a snappy block of {size} bytes does not fit")
        out.append(_snappy_block(view[position : position + size], opened))
        opened += len(out[-1])
        position += size
    return b"".join(out)


def _snappy_block(block: memoryview, opened: int) -> bytes:
    """Decompress a block, which says how long it will be, after `opened` bytes of others."""
    from cramjam import snappy  # noqa: PLC0415 - first use

    if opened + snappy.decompress_raw_len(block) > MOST_OPENED_BYTES:
        raise OversizedDataError(f"snappy: more than {MOST_OPENED_BYTES} bytes")
    return bytes(snappy.decompress_raw(block))


def _lz4_compress(data: Buffer) -> bytes:
    from cramjam import lz4  # noqa: PLC0415 - first use

    view = memoryview(data)
    out = [_LZ4_HEAD]
    for start in range(0, len(view), _LZ4_BLOCK_SIZE):
        plain = view[start : start + _LZ4_BLOCK_SIZE]
        block = bytes(lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += (_UINT32_LE.pack(len(block)), block)
        else:
            out += (_UINT32_LE.pack(len(plain) | _LZ4_STORED), bytes(plain))
    out.append(_LZ4_END)
    return b"".join(out)


def _lz4_decompress(data: Buffer) -> bytes:
    from cramjam import lz4  # noqa: PLC0415 - first use

    return _opened(lz4.decompress_into, data, 256)


def _opened(
    decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, most_times: int
) -> bytes:
    """Decompress into as much room as it takes, found by trying, for the data does not say.

    No stream of this compression comes to more than `most_times` its own length.
    """
    most = min(MOST_OPENED_BYTES, _ROOM + most_times * len(data))
    size = min(most, max(_ROOM, _ROOM_GROWTH * len(data)))
    while True:
        room = bytearray(size)
        try:
            count = decompress_into(data, room)
        except Exception as error:
            # Either the room is too small or the data is damaged: the same class of error.
            if size == MOST_OPENED_BYTES:
                raise OversizedDataError(f"more than {MOST_OPENED_BYTES} bytes") from error
            if size == most:
                raise
            size = min(most, size * _ROOM_GROWTH)
        else:
            return bytes(memoryview(room)[:count])


NONE = 0
CODECS = {
    NONE: Codec("none", bytes, bytes),
    1: Codec("gzip", _gzip_compress, _gzip_decompress),
    2: Codec("snappy", _snappy_compress, _snappy_decompress),
    3: Codec("lz4", _lz4_compress, _lz4_decompress),
    4: Codec("zstd", _zstd_compress, _zstd_decompress),
}
CODEC_NUMBERS = {codec.name: number for number, codec in CODECS.items()} | {"uncompressed": NONE}


def compress(number: int, data: Buffer) -> bytes:
    """Return `data` compressed with the codec of that number."""
    return CODECS[number].compress(data)


def decompress(number: int, data: Buffer) -> bytes:
    """Return `data` decompressed; CompressedDataError when it cannot be."""
    codec = CODECS.get(number)
    if codec is None:
        raise CompressedDataError(f"no compression has the number {number}")
    try:
        return codec.decompress(data)
    except CompressedDataError:
        raise
    except Exception as error:
        # cramjam raises classes of its own, which cannot be named before it is imported.
        raise CompressedDataError(f"{codec.name}: {error}") from error
