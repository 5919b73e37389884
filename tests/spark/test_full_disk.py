"""The audit command with a full disk: one sentence, and no output that looks complete."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.perf.big_capture import write

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.endurance, pytest.mark.timeout(300)]

IN_NAMESPACE = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
SMALL_DISK = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2'


def can_mount() -> bool:
    """Whether this user may mount a file system in a namespace of its own."""
    if shutil.which("unshare") is None:
        return False
    script = 'mount -t tmpfs -o size=64k tmpfs "$1"'
    return not subprocess.run(
        [*IN_NAMESPACE, script, "sh", "/mnt"], check=False, capture_output=True
    ).returncode


@pytest.mark.skipif(not can_mount(), reason="needs a file system of its own, of few bytes")
@pytest.mark.parametrize(
    ("capture_bytes", "engine"), [(1_500_000, "local"), (1_500_000, "spark"), (9_000_000, "spark")]
)
def test_full_disk_is_explained_in_one_line(
    tmp_path: Path, capture_bytes: int, engine: str
) -> None:
    write(tmp_path / "in", capture_bytes)
    out = tmp_path / "out"
    out.mkdir()
    audit = [sys.executable, "-m", "kafkalite", "audit", str(tmp_path / "in"), "--out", str(out),
             "--engine", engine]  # fmt: skip
    script = f'{SMALL_DISK}; out="$7"; "$@"; status=$?; (cd "$out" && find . -type f); exit $status'
    ended = subprocess.run(
        [*IN_NAMESPACE, script, "sh", "32k", str(out), *audit],
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1, ended.stderr
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("kafkalite: ")
    assert "the disk is full: free space in the output directory" in last
    assert "Traceback" not in ended.stderr
    assert not {"./report.html", "./_kafkalite/manifest.json"} & {*ended.stdout.splitlines()}
    assert "./_kafkalite/lock" in ended.stdout
