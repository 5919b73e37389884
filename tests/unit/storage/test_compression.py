"""The four compressions, in the framing of Java's clients."""

from __future__ import annotations

import gzip
import os

import cramjam
import pytest

from kafkalite.storage.compression import (
    CODEC_NUMBERS,
    CODECS,
    CompressedDataError,
    OversizedDataError,
    compress,
    decompress,
)

SAMPLES = [b"", b"a", b"abc" * 50_000, os.urandom(200_000), bytes(1_000_000)]


@pytest.mark.parametrize("number", CODECS)
@pytest.mark.parametrize("sample", SAMPLES, ids=["empty", "one", "text", "noise", "zeros"])
def test_compressed_data_is_decompressed(number: int, sample: bytes) -> None:
    assert decompress(number, compress(number, sample)) == sample
    assert decompress(number, memoryview(compress(number, memoryview(sample)))) == sample


def test_codec_names_are_those_of_compression_type() -> None:
    assert CODEC_NUMBERS == {
        "none": 0, "uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4,
    }  # fmt: skip


def test_snappy_is_framed_in_blocks_as_java_writes_it() -> None:
    data = compress(2, b"a" * 70_000)
    assert data.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    size = int.from_bytes(data[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(data[20 : 20 + size])) == b"a" * 32_768


def test_snappy_in_one_raw_block_is_read_as_librdkafka_writes_it() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"a" * 70_000))
    assert decompress(2, raw) == b"a" * 70_000


def test_lz4_blocks_are_independent() -> None:
    data = compress(3, b"abc" * 50_000)
    flags = data[4]
    assert data[:4] == b"\x04\x22\x4d\x18"
    assert flags & 0x20
    assert bytes(cramjam.lz4.decompress(data)) == b"abc" * 50_000


def test_lz4_of_other_writers_is_read() -> None:
    linked = bytes(cramjam.lz4.compress(b"abc" * 50_000))
    assert decompress(3, linked) == b"abc" * 50_000


def test_gzip_of_other_writers_is_read() -> None:
    assert decompress(1, gzip.compress(b"abc")) == b"abc"
    assert gzip.decompress(compress(1, b"abc")) == b"abc"


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_damaged_data_raises_compressed_data_error(number: int) -> None:
    compressed = compress(number, b"abc" * 1000)
    for damaged in (
        compressed[:-5],
        b"\x01\x02\x03\x04" + compressed,
        compressed[:20] + b"\xff" * 40,
    ):
        with pytest.raises(CompressedDataError):
            decompress(number, damaged)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_small_input_with_oversized_content_is_refused(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalite.storage.compression.MAX_DECOMPRESSED_BYTES", 1_000_000)
    assert decompress(number, compress(number, bytes(1_000_000))) == bytes(1_000_000)
    with pytest.raises(OversizedDataError):
        decompress(number, compress(number, bytes(1_000_001)))


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_limit_can_be_chosen(number: int) -> None:
    assert decompress(number, compress(number, bytes(1_000)), 1_000) == bytes(1_000)
    with pytest.raises(OversizedDataError):
        decompress(number, compress(number, bytes(1_001)), 1_000)


def test_raw_snappy_block_with_false_length_is_refused() -> None:
    length_prefix = b"\xff\xff\xff\xff\x0f"
    with pytest.raises(OversizedDataError):
        decompress(2, length_prefix + b"\0" * 20)


@pytest.mark.parametrize("cut", [17, 18, 19, 22])
def test_truncated_snappy_block_is_refused(cut: int) -> None:
    with pytest.raises(CompressedDataError):
        decompress(2, compress(2, b"abc")[:cut])


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_codec_number_is_refused(number: int) -> None:
    with pytest.raises(CompressedDataError):
        decompress(number, b"")
