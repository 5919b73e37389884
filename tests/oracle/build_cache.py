"""A cache of fetched and compiled files, one per machine; the key is a hash of the inputs."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from typing import TYPE_CHECKING

from filelock import FileLock

from tests.oracle.requirements import UnavailableError, cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_COMPLETE_MARKER = ".done"


def build_once(name: str, sources: Iterable[Path], build: Callable[[Path], None]) -> Path:
    """Return the directory that `build` fills from these sources; build it if it is not cached.

    If two processes need it at the same time, the second waits for the first.
    """
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    directory = cache_dir() / f"{name}-{digest.hexdigest()[:12]}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(directory.with_suffix(".lock")):
        if not (directory / _COMPLETE_MARKER).exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            build(directory)
            (directory / _COMPLETE_MARKER).touch()
    return directory


def run_build(command: list[str], directory: Path, timeout_s: float = 300.0) -> None:
    """Run one build command in a directory; raises UnavailableError with the end of its output."""
    try:
        completed = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{command[0]} did not finish within {timeout_s:.0f} s") from None
    if completed.returncode != 0:
        output = (completed.stdout + completed.stderr).strip()[-1500:]
        raise UnavailableError(f"{' '.join(command[:3])} failed: {output}")
