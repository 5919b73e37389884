"""Kernels are compiled once and cached, and stay within their arrays."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import kafkalite
from kafkalite.lab.columnar import byte_columns, kernels
from kafkalite.lab.columnar.decoding import interpreter
from kafkalite.lab.columnar.exchanges import pairing
from kafkalite.lab.columnar.exchanges.typed_exchanges import decode_pairs
from kafkalite.lab.columnar.files import pcapng
from kafkalite.lab.columnar.frames import frames, headers
from kafkalite.lab.columnar.options import Options, Table
from kafkalite.lab.columnar.reading import read_file
from kafkalite.lab.columnar.segments import flows, packets
from kafkalite.protocol import codec
from tests.captures import damage, traffic
from tests.perf.big_capture import write

if TYPE_CHECKING:
    import pyarrow as pa

PACKAGE = Path(kafkalite.__file__).parent
TESTS_OF_KERNELS = (
    "test_reading.py",
    "files/test_pcapng.py",
    "frames/test_frames.py",
    "exchanges/test_pairing.py",
    "segments/test_flows.py",
    "decoding/test_interpreter.py",
    "decoding/test_decode.py",
)
ENTRIES: list[Any] = [
    pcapng.packet_blocks,
    packets.read_headers,
    flows.number_segments,
    frames.link_segments,
    frames.find_frames,
    frames.advance_connections,
    headers.parse_headers,
    headers.find_bodies,
    pairing.pair_all,
    byte_columns.copy_ranges,
    interpreter.walk,
]


def run(command: list[str], folder: Path, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **more},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_kernel_is_compiled_for_one_signature(tmp_path: Path) -> None:
    (path,) = write(tmp_path, 50_000, connections=3).files
    with path.open("rb") as file:
        assert list(read_file(file, "read"))
    batches = list(read_file(path.read_bytes(), "bytes", Options(by_api=True)))
    for pairs in (batch for table, batch in batches if table is Table.PAIRS):
        key = pairs["api_key"][0].as_py()
        for some in (pairs, pairs.slice(1), pairs.slice(0, 0)):
            decode_pairs(key, some)
    assert {each.__name__: len(each.compiled.signatures) for each in ENTRIES} == {
        each.__name__: 1 for each in ENTRIES
    }


def test_kernels_work_without_a_cache_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert kernels.kernel_directory.__wrapped__() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = kernels.kernel_directory.__wrapped__()
    assert folder is not None
    for name in ("kernels.py", "frames/frames.py"):
        assert (folder / name).read_bytes() == (PACKAGE / "lab/columnar" / name).read_bytes()


def test_full_disk_leaves_no_partial_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(Path, "write_bytes", is_full)
    assert kernels.kernel_directory.__wrapped__() is None
    assert not [*(tmp_path / "kafkalite").iterdir()]


def test_cache_that_others_can_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = kernels.kernel_directory.__wrapped__()
    assert folder is not None
    folder.chmod(0o777)
    assert kernels.kernel_directory.__wrapped__() is None


@pytest.mark.endurance
@pytest.mark.timeout(900)
def test_no_kernel_reads_beyond_its_arrays(tmp_path: Path) -> None:
    """Runs the tests of kernels with numba's bounds check."""
    here = Path(__file__).parent
    tests = [str(here / name) for name in TESTS_OF_KERNELS]
    more = {"NUMBA_BOUNDSCHECK": "1", "XDG_CACHE_HOME": str(tmp_path)}
    command = ["-m", "pytest", "-q", "--timeout=800", "-p", "no:cacheprovider", *tests]
    out = run(command, PACKAGE.parent, **more)
    assert " passed" in out


@pytest.mark.endurance
@pytest.mark.timeout(300)
def test_kernels_from_a_zip_file_are_cached(tmp_path: Path) -> None:
    (path,) = write(tmp_path, 50_000, connections=3).files
    code = (
        "import kafkalite, pathlib, sys; from kafkalite.lab.columnar.reading import read_file;"
        "data = pathlib.Path(sys.argv[1]).read_bytes();"
        "print(sum(len(batch) for _, batch in read_file(data, '')), kafkalite.__file__)"
    )
    caches: list[set[str]] = []
    for name in ("one.zip", "other.zip"):
        packed = tmp_path / name
        with zipfile.ZipFile(packed, "w") as archive:
            for each in PACKAGE.rglob("*.py"):
                archive.write(each, f"kafkalite/{each.relative_to(PACKAGE).as_posix()}")
        cache = str(tmp_path / "cache")
        out = run(["-c", code, str(path)], tmp_path, PYTHONPATH=str(packed), XDG_CACHE_HOME=cache)
        rows, module_path = out.split()
        assert int(rows) > 100
        assert module_path.startswith(str(packed))
        caches.append({str(each) for each in (tmp_path / "cache").rglob("*.nbc")})
    assert caches[0]
    assert caches[0] == caches[1]


def read_everything(data: bytes) -> list[tuple[Table, pa.RecordBatch]]:
    """Return all rows of a capture, with the typed requests of each API."""
    found = list(read_file(data, "capture", Options(tables=frozenset(Table), by_api=True)))
    return found + [
        (table, typed)
        for table, batch in found
        if table is Table.PAIRS and batch["api_key"][0].as_py() in codec.api_keys()
        for typed in decode_pairs(batch["api_key"][0].as_py(), batch)
    ]


@pytest.mark.parametrize("name", [None, *damage.DAMAGES])
def test_interpreted_kernels_find_the_same(name: str | None) -> None:
    chance = Random(3)  # noqa: S311 - reproducible
    packets = traffic.packets(traffic.clean(chance, connections=2, count=10))
    if name is not None:
        packets = damage.DAMAGES[name](packets, chance)
    data = damage.capture_file(packets)
    mutated = bytearray(data)
    for _ in range(20):
        mutated[chance.randrange(len(mutated))] ^= 1 << chance.randrange(8)
    for each in (data, bytes(mutated)):
        compiled = read_everything(each)
        with kernels.interpreted_kernels():
            assert read_everything(each) == compiled
