"""Compiled kernels are cached, and compiled again if the cache is damaged."""

from __future__ import annotations

import errno
from types import FunctionType
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.lab.columnar import kernels
from kafkalite.lab.columnar.arrays import byte_array

if TYPE_CHECKING:
    from pathlib import Path


def cache_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = kernels.kernel_directory.__wrapped__()
    assert folder is not None
    return folder


def new_peek_kernel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a dispatcher
    """Return a kernel as a new process would."""
    monkeypatch.setattr(kernels, "kernel_directory", lambda: folder)
    known: Any = kernels.peek_u8
    made: Any = kernels.kernel(FunctionType(known.__wrapped__.__code__, vars(kernels)))
    return made.compiled


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
    assert sum(repaired.stats.cache_hits.values()) == 1


def test_kernel_works_if_the_cache_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = cache_in(tmp_path, monkeypatch)
    monkeypatch.setattr("os.replace", is_full)
    assert new_peek_kernel(folder, monkeypatch)(byte_array(bytes([3, 5])), 0) == 3
    assert not [*folder.rglob("*.nb?")]
