"""The four compressions, in the frames that Java's clients write and read."""

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
def test_what_was_compressed_comes_back(number: int, sample: bytes) -> None:
    assert decompress(number, compress(number, sample)) == sample
    assert decompress(number, memoryview(compress(number, memoryview(sample)))) == sample


def test_the_names_are_those_of_configurations() -> None:
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


def test_lz4_blocks_do_not_lean_on_each_other() -> None:
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
def test_damage_is_one_kind_of_error(number: int) -> None:
    whole = compress(number, b"abc" * 1000)
    for damaged in (whole[:-5], b"\x01\x02\x03\x04" + whole, whole[:20] + b"\xff" * 40):
        with pytest.raises(CompressedDataError):
            decompress(number, damaged)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_little_that_holds_too_much_is_not_opened(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalite.storage.compression.MOST_OPENED_BYTES", 1_000_000)
    assert decompress(number, compress(number, bytes(1_000_000))) == bytes(1_000_000)
    with pytest.raises(OversizedDataError):
        decompress(number, compress(number, bytes(1_000_001)))


def test_a_raw_block_of_snappy_is_not_believed_what_it_promises() -> None:
    promise = b"\xff\xff\xff\xff\x0f"
    with pytest.raises(OversizedDataError):
        decompress(2, promise + b"\0" * 20)


@pytest.mark.parametrize("cut", [17, 18, 19, 22])
def test_a_block_of_snappy_that_is_cut_short_is_damage(cut: int) -> None:
    with pytest.raises(CompressedDataError):
        decompress(2, compress(2, b"abc")[:cut])


@pytest.mark.parametrize("number", [5, 6, 7])
def test_there_are_no_other_compressions(number: int) -> None:
    with pytest.raises(CompressedDataError):
        decompress(number, b"")
