"""Kernels are compiled once, wherever they come from, and stay within their arrays."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import kafkalite
from kafkalite.columnar import (
    blocks,
    compiled,
    flows,
    frames,
    heads,
    packets,
    pairing,
    payloads,
    walk,
)
from kafkalite.columnar.arrays import view
from kafkalite.columnar.exchanges import typed
from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.reading import read_file
from tests.perf.big_capture import write

PACKAGE = Path(kafkalite.__file__).parent
JUDGES = (
    "test_reading.py",
    "test_blocks.py",
    "test_frames.py",
    "test_pairing.py",
    "test_flows.py",
    "test_walk.py",
    "test_decode.py",
)
ENTRIES: list[Any] = [
    blocks.packet_blocks,
    packets.read_heads,
    flows.number_segments,
    frames.follow,
    frames.cut,
    frames.settle,
    heads.read_frames,
    heads.read_bodies,
    pairing.pair_all,
    payloads.copy_ranges,
    walk.walk,
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


def test_each_kernel_is_compiled_for_one_kind_of_arguments(tmp_path: Path) -> None:
    (path,) = write(tmp_path, 50_000, connections=3).files
    with path.open("rb") as file:
        assert list(read_file(file, "read"))
    held = list(read_file(path.read_bytes(), "held", Options(by_api=True)))
    for pairs in (batch for table, batch in held if table is Table.PAIRS):
        key = pairs["api_key"][0].as_py()
        for some in (pairs, pairs.slice(1), pairs.slice(0, 0)):
            typed(key, some)
    assert {each.__name__: len(each.signatures) for each in ENTRIES} == {
        each.__name__: 1 for each in ENTRIES
    }


def test_where_nothing_can_be_kept_kernels_are_compiled_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compiled.kernel_folder.__wrapped__() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = compiled.kernel_folder.__wrapped__()
    assert folder is not None
    assert (folder / "frames.py").read_bytes() == (PACKAGE / "columnar/frames.py").read_bytes()


def peeking(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a dispatcher
    """Return a kernel as a new process has it."""
    monkeypatch.setattr(compiled, "kernel_folder", lambda: folder)
    known: Any = compiled.peek_u8
    return compiled.kernel(FunctionType(known.py_func.__code__, vars(compiled)))


def kept_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = compiled.kernel_folder.__wrapped__()
    assert folder is not None
    return folder


def test_a_disk_that_is_full_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(Path, "write_bytes", is_full)
    assert compiled.kernel_folder.__wrapped__() is None
    assert not [*(tmp_path / "kafkalite").iterdir()]


def test_nothing_is_taken_from_a_folder_that_others_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_in(tmp_path, monkeypatch).chmod(0o777)
    assert compiled.kernel_folder.__wrapped__() is None


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("junk", [b"", b"\x80junk", bytes(100)])
def test_a_kernel_of_which_what_is_kept_is_broken_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, junk: bytes
) -> None:
    folder = kept_in(tmp_path, monkeypatch)
    data = view(bytes([3, 5]))
    assert peeking(folder, monkeypatch)(data, 1) == 5
    (kept,) = folder.rglob(f"*.{kind}")
    kept.write_bytes(junk)
    assert peeking(folder, monkeypatch)(data, 1) == 5
    healed = peeking(folder, monkeypatch)
    assert healed(data, 1) == 5
    assert sum(healed.stats.cache_hits.values()) == 1


def test_a_kernel_that_cannot_be_kept_works_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = kept_in(tmp_path, monkeypatch)
    monkeypatch.setattr("os.replace", is_full)
    assert peeking(folder, monkeypatch)(view(bytes([3, 5])), 0) == 3
    assert not [*folder.rglob("*.nb?")]


@pytest.mark.endurance
@pytest.mark.timeout(900)
def test_no_kernel_looks_beyond_its_arrays(tmp_path: Path) -> None:
    """Machine code does not say so, unless it is told to look."""
    here = Path(__file__).parent
    judges = [str(here / name) for name in JUDGES]
    more = {"NUMBA_BOUNDSCHECK": "1", "XDG_CACHE_HOME": str(tmp_path)}
    command = ["-m", "pytest", "-q", "--timeout=800", "-p", "no:cacheprovider", *judges]
    out = run(command, PACKAGE.parent, **more)
    assert " passed" in out


@pytest.mark.endurance
@pytest.mark.timeout(300)
def test_kernels_that_come_in_a_zip_are_compiled_once(tmp_path: Path) -> None:
    (path,) = write(tmp_path, 50_000, connections=3).files
    code = (
        "import kafkalite, pathlib, sys; from kafkalite.columnar.reading import read_file;"
        "data = pathlib.Path(sys.argv[1]).read_bytes();"
        "print(sum(len(batch) for _, batch in read_file(data, '')), kafkalite.__file__)"
    )
    kept: list[set[str]] = []
    for name in ("one.zip", "other.zip"):
        packed = tmp_path / name
        with zipfile.ZipFile(packed, "w") as archive:
            for each in PACKAGE.rglob("*.py"):
                archive.write(each, f"kafkalite/{each.relative_to(PACKAGE).as_posix()}")
        cache = str(tmp_path / "cache")
        out = run(["-c", code, str(path)], tmp_path, PYTHONPATH=str(packed), XDG_CACHE_HOME=cache)
        rows, place = out.split()
        assert int(rows) > 100
        assert place.startswith(str(packed))
        kept.append({str(each) for each in (tmp_path / "cache").rglob("*.nbc")})
    assert kept[0]
    assert kept[0] == kept[1]
