"""The zip of our package, used without an installed package."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

from kafkalite.lab.spark.shipping import zip_package

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import kafkalite
from kafkalite.capture.model import Direction
from kafkalite.lab.columnar import tables
from kafkalite.protocol import codec
assert ".zip" in kafkalite.__file__, kafkalite.__file__
parse = codec.request_parser(8, 9)
print(tables.requests(8).field("request").type.field("group_id").type)
"""


def test_package_can_be_imported_from_the_zip(tmp_path: Path) -> None:
    packed = zip_package(tmp_path)
    environ = {**os.environ, "PYTHONPATH": str(packed)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "string", done.stderr


def test_zip_has_the_specs_and_no_cache_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(zip_package(tmp_path)) as packed:
        names = packed.namelist()
    assert "kafkalite/protocol/specs/apis/offset_commit_request.ksp" in names
    assert not [name for name in names if "__pycache__" in name or not name.startswith("kafkalite")]


def test_zip_is_written_once(tmp_path: Path) -> None:
    made = zip_package(tmp_path).stat()
    assert zip_package(tmp_path).stat().st_ino == made.st_ino
    assert len([*tmp_path.iterdir()]) == 1
