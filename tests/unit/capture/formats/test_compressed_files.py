"""Compressed captures: streams, cuts at each byte, damage, and the readers that use them."""

from __future__ import annotations

import gzip
import io
import lzma
import sys
from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.formats.compressed_files import DecompressedFile, decompressor_of

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 1, mtime=0),
    "xz": lambda data: lzma.compress(data, preset=0),
    "zstd": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
}
each_format = pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)

RANDOM = Random(0)  # noqa: S311 - repeatable
TEXT = b"".join(b"%d " % RANDOM.randrange(10**6) for _ in range(80_000))


def opened(data: bytes) -> DecompressedFile:
    new_decompressor = decompressor_of(data[:6])
    assert new_decompressor is not None
    return DecompressedFile(io.BytesIO(data), new_decompressor)


def read_all(file: DecompressedFile, size: int = 100_000) -> tuple[bytes, type[Exception] | None]:
    """Return the content of a file, and the type of the error at its end."""
    content, memory = bytearray(), bytearray(size)
    while True:
        try:
            count = file.readinto(memory)
        except (EOFError, OSError) as error:
            return bytes(content), type(error)
        if not count:
            return bytes(content), None
        content += memory[:count]


@each_format
@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_a_file_is_read_in_pieces_of_any_size(
    compress: Callable[[bytes], bytes], size: int
) -> None:
    assert read_all(opened(compress(TEXT)), size) == (TEXT, None)
    assert read_all(opened(compress(b""))) == (b"", None)


@each_format
@pytest.mark.parametrize("padding", [b"", bytes(8)])
def test_a_file_may_have_several_streams(
    compress: Callable[[bytes], bytes], padding: bytes
) -> None:
    data = compress(b"one ") + padding + compress(b"") + compress(b"two") + padding
    assert read_all(opened(data)) == (b"one two", None)


@each_format
@pytest.mark.parametrize("part", [0.3, 0.5, 0.9, 0.999])
def test_a_cut_file_is_read_to_its_last_bytes(
    compress: Callable[[bytes], bytes], part: float
) -> None:
    data = compress(TEXT)
    content, error = read_all(opened(data[: int(part * len(data))]))
    assert error is EOFError
    assert TEXT.startswith(content)
    # The last block of the format is incomplete: it has up to 128 KiB with zstd.
    assert len(content) > part * len(TEXT) - 140_000
    if compress is COMPRESS["gzip"]:
        assert len(content) > part * len(TEXT) - 1000


@each_format
def test_the_content_before_damage_is_read(compress: Callable[[bytes], bytes]) -> None:
    data = compress(TEXT)
    half = len(data) // 2
    content, error = read_all(opened(data[:half] + bytes(200) + data[half + 200 :]))
    assert error is not None
    if error is OSError:
        # Some damage is found only by the checksum at the end.
        assert content[: len(TEXT) // 4] == TEXT[: len(TEXT) // 4]


@each_format
def test_other_bytes_after_the_content_are_an_error(compress: Callable[[bytes], bytes]) -> None:
    content, error = read_all(opened(compress(b"all") + b"more than a few bytes"))
    assert content == b"all"
    assert error is OSError


@each_format
def test_a_small_file_with_a_large_content_is_read_in_parts(
    compress: Callable[[bytes], bytes],
) -> None:
    file = opened(compress(bytes(50_000_000)))
    memory = bytearray(1000)
    assert file.readinto(memory) == 1000
    assert len(file._pending) < 20_000


def test_other_files_are_not_compressed() -> None:
    for first_bytes in (b"", b"\x1f", b"\n\r\r\n\0\0", b"\xd4\xc3\xb2\xa1"):
        assert decompressor_of(first_bytes) is None


def test_the_error_without_the_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.delattr("backports.zstd", raising=False)
    with pytest.raises(OSError, match="kafkalite\\[capture\\]"):
        opened(COMPRESS["zstd"](b"a")).read(1)
