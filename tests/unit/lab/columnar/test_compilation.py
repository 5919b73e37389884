"""Compiled kernels are cached, and compiled again if the cache is damaged."""

from __future__ import annotations

import errno
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from kafkalite.lab.columnar import kernels
from kafkalite.lab.columnar.arrays import byte_array


def cache_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = kernels.kernel_directory.__wrapped__()
    assert folder is not None
    return folder


def new_peek_kernel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a kernel
    """Return a kernel as a new process would."""
    monkeypatch.setattr(kernels, "kernel_directory", lambda: folder)
    known: Any = kernels.peek_u8
    return kernels.kernel(FunctionType(known.__wrapped__.__code__, vars(kernels)))


def test_other_processes_wait_while_a_kernel_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = new_peek_kernel(cache_in(tmp_path, monkeypatch), monkeypatch)
    steps: list[str] = []

    class RecordedLock:
        def __init__(self, path: str, *, waits: bool) -> None:
            steps.append(f"{Path(path).name} {waits}")

        def release(self) -> None:
            steps.append("released")

    monkeypatch.setattr(kernels, "lock_file", RecordedLock)
    monkeypatch.setattr(made, "compiled", lambda: steps.append("called"))
    made()
    made()
    assert steps == ["lock True", "called", "released", "called"]


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("junk", [b"", b"\x80junk", bytes(100)])
def test_kernel_with_corrupt_cache_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, junk: bytes
) -> None:
    folder = cache_in(tmp_path, monkeypatch)
    data = byte_array(bytes([3, 5]))
    assert new_peek_kernel(folder, monkeypatch)(data, 1) == 5
    (cached,) = folder.rglob(f"*.{kind}")
    cached.write_bytes(junk)
    assert new_peek_kernel(folder, monkeypatch)(data, 1) == 5
    repaired = new_peek_kernel(folder, monkeypatch)
    assert repaired(data, 1) == 5
    assert repaired.compiled.stats.cache_hits.total() == 1


def test_kernel_works_if_the_cache_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = cache_in(tmp_path, monkeypatch)
    monkeypatch.setattr("os.replace", is_full)
    assert new_peek_kernel(folder, monkeypatch)(byte_array(bytes([3, 5])), 0) == 3
    assert not [*folder.rglob("*.nb?")]
