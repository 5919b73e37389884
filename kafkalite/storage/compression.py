"""The four compression codecs of record batches, with the framing that Kafka's Java clients expect.

The table CODECS is indexed by the number in a batch's attributes. cramjam is imported on first use,
because most batches pass through the broker without being decompressed. The decompressed size is
limited by MAX_DECOMPRESSED_BYTES. Kafka needs no such limit, because it reads records as a stream:
nine kilobytes of zstd can contain three hundred megabytes, and a few such batches would fill the
memory.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from functools import partial
from mmap import mmap
from typing import TYPE_CHECKING, TypeAlias

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.turns import run_in_thread
from kafkalite.storage.record_format import MalformedRecordsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.ports.files import Buffer

    WritableBuffer = bytearray | mmap

MAX_DECOMPRESSED_BYTES = 100 * 1024 * 1024
"""Maximum size of a batch's decompressed records: the limit of an uncompressed request."""

_INLINE_BYTES = 512 * 1024
"""Larger data is decompressed in a thread while other requests are served."""

_INITIAL_SIZE = 64 * 1024
_SIZE_GROWTH = 8

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_SIZE = 32 * 1024
_INT32 = struct.Struct(">i")

# Magic, version 1 with independent blocks, blocks of at most 64 KiB, and the header
# checksum. Java's reader refuses dependent blocks, which cramjam's own frames have. So the frame is
# built here from raw blocks.
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_SIZE = 64 * 1024
_LZ4_UNCOMPRESSED_FLAG = 0x8000_0000
_LZ4_END_MARK = bytes(4)
_UINT32_LE = struct.Struct("<I")


DecompressedBuffer: TypeAlias = bytes | mmap
"""Decompressed bytes; large ones in a memory map, which the caller must close."""


class CompressedDataError(MalformedRecordsError):
    """Bytes that cannot be decompressed."""


class OversizedDataError(CompressedDataError):
    """Compressed data that is too large when decompressed."""


class Codec(NamedTuple):
    """A compression codec: its name in configurations, and functions for both directions."""

    name: str
    compress: Callable[[Buffer], bytes]
    decompress: Callable[[Buffer, int], DecompressedBuffer]
    """(data, limit) → the decompressed data; raises if it is longer than the limit."""


def _gzip_compress(data: Buffer) -> bytes:
    from cramjam import gzip  # noqa: PLC0415 - first use

    return bytes(gzip.compress(data))


def _gzip_decompress(data: Buffer, limit: int) -> DecompressedBuffer:
    from cramjam import gzip  # noqa: PLC0415 - first use

    return _decompress_by_trial(gzip.decompress_into, data, limit, max_ratio=1032)


def _zstd_compress(data: Buffer) -> bytes:
    from cramjam import zstd  # noqa: PLC0415 - first use

    return bytes(zstd.compress(data))


def _zstd_decompress(data: Buffer, limit: int) -> DecompressedBuffer:
    from cramjam import zstd  # noqa: PLC0415 - first use

    return _decompress_by_trial(zstd.decompress_into, data, limit, max_ratio=32 * 1024)


def _snappy_compress(data: Buffer) -> bytes:
    """Compress in the stream form of the xerial library, which Java clients write."""
    from cramjam import snappy  # noqa: PLC0415 - first use

    view = memoryview(data)
    out = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        out += (_INT32.pack(len(block)), block)
    return b"".join(out)


def _snappy_decompress(data: Buffer, limit: int) -> DecompressedBuffer:
    """Decompress the xerial stream form, or one raw block, which librdkafka writes."""
    view = memoryview(data)
    blocks = list(_xerial_blocks(view)) if bytes(view[:8]) == _XERIAL_MAGIC else [view]
    from cramjam import snappy  # noqa: PLC0415 - first use

    sizes = [snappy.decompress_raw_len(block) for block in blocks]
    total = sum(sizes)
    if total > limit:
        raise OversizedDataError(f"snappy: more than {limit} bytes")
    if total <= _INLINE_BYTES:
        return b"".join(bytes(snappy.decompress_raw(block)) for block in blocks)

    def decompress_all() -> mmap:
        buffer = mmap(-1, total)
        position = 0
        with memoryview(buffer) as target:
            for block, size in zip(blocks, sizes, strict=True):
                with target[position : position + size] as part:
                    snappy.decompress_raw_into(block, part)
                position += size
        return buffer

    return run_in_thread(decompress_all)


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    position = len(_XERIAL_HEADER)
    while position < len(view):
        (size,) = _INT32.unpack_from(view, position)
        position += _INT32.size
        if size < 0 or position + size > len(view):
            raise CompressedDataError(f"a snappy block of {size} bytes does not fit")
        yield view[position : position + size]
        position += size


def _lz4_compress(data: Buffer) -> bytes:
    from cramjam import lz4  # noqa: PLC0415 - first use

    view = memoryview(data)
    out = [_LZ4_HEADER]
    for start in range(0, len(view), _LZ4_BLOCK_SIZE):
        plain = view[start : start + _LZ4_BLOCK_SIZE]
        block = bytes(lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += (_UINT32_LE.pack(len(block)), block)
        else:
            out += (_UINT32_LE.pack(len(plain) | _LZ4_UNCOMPRESSED_FLAG), bytes(plain))
    out.append(_LZ4_END_MARK)
    return b"".join(out)


def _lz4_decompress(data: Buffer, limit: int) -> DecompressedBuffer:
    from cramjam import lz4  # noqa: PLC0415 - first use

    return _decompress_by_trial(lz4.decompress_into, data, limit, max_ratio=256)


def _decompress_by_trial(
    decompress_into: Callable[[Buffer, WritableBuffer], int],
    data: Buffer,
    limit: int,
    max_ratio: int,
) -> DecompressedBuffer:
    """Decompress into a buffer that grows until the output fits.

    The compressed data does not contain the size of the output, which is at most `max_ratio` times
    as large as the input. Large data is decompressed in a thread.
    """
    max_size = min(limit, _INITIAL_SIZE + max_ratio * len(data))
    size = min(max_size, max(_INITIAL_SIZE, _SIZE_GROWTH * len(data)))
    while True:
        try:
            if size <= _INLINE_BYTES:
                return _decompress_inline(decompress_into, data, size)
            return run_in_thread(partial(_decompress_to_memory_map, decompress_into, data, size))
        except Exception as error:
            # The buffer is too small or the data is damaged: both raise the same class.
            if size == limit:
                raise OversizedDataError(f"more than {limit} bytes") from error
            if size == max_size:
                raise
            size = min(max_size, size * _SIZE_GROWTH)


def _decompress_inline(
    decompress_into: Callable[[Buffer, WritableBuffer], int], data: Buffer, size: int
) -> bytes:
    buffer = bytearray(size)
    count = decompress_into(data, buffer)
    return bytes(memoryview(buffer)[:count])


def _decompress_to_memory_map(
    decompress_into: Callable[[Buffer, WritableBuffer], int], data: Buffer, size: int
) -> mmap:
    # A map is zeroed page by page when it is written to; zeroing all at once takes long.
    buffer = mmap(-1, size)
    try:
        buffer.resize(max(1, decompress_into(data, buffer)))
    except BaseException:
        buffer.close()
        raise
    return buffer


NO_COMPRESSION = 0
CODECS = {
    NO_COMPRESSION: Codec("none", bytes, lambda data, _: bytes(data)),
    1: Codec("gzip", _gzip_compress, _gzip_decompress),
    2: Codec("snappy", _snappy_compress, _snappy_decompress),
    3: Codec("lz4", _lz4_compress, _lz4_decompress),
    4: Codec("zstd", _zstd_compress, _zstd_decompress),
}
CODEC_NUMBERS = {codec.name: number for number, codec in CODECS.items()} | {
    "uncompressed": NO_COMPRESSION
}


def compress(codec_number: int, data: Buffer) -> bytes:
    """Return `data`, compressed with the codec of that number."""
    return CODECS[codec_number].compress(data)


def decompress(codec_number: int, data: Buffer, limit: int | None = None) -> bytes:
    """Return the decompressed `data`; raises CompressedDataError if that fails.

    It fails if the result is longer than `limit` bytes, by default MAX_DECOMPRESSED_BYTES.
    """
    with decompressed_buffer(codec_number, data, limit) as body:
        return body if isinstance(body, bytes) else body[:]


@contextmanager
def decompressed_buffer(
    codec_number: int, data: Buffer, limit: int | None = None
) -> Iterator[DecompressedBuffer]:
    """Return a context manager for a buffer with the decompressed `data`.

    Raises CompressedDataError if that fails.
    """
    codec = CODECS.get(codec_number)
    if codec is None:
        raise CompressedDataError(f"no compression has the number {codec_number}")
    try:
        body = codec.decompress(data, MAX_DECOMPRESSED_BYTES if limit is None else limit)
    except CompressedDataError:
        raise
    except Exception as error:
        # cramjam raises its own classes, which cannot be named before it is imported.
        raise CompressedDataError(f"{codec.name}: {error}") from error
    try:
        yield body
    finally:
        if isinstance(body, mmap):
            run_in_thread(body.close)  # unmapping takes long as well
