"""The archive of Java's classes: its name, its completion, and that Java uses it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.spark.class_archive import archive_path, store, store_options, use_options

if TYPE_CHECKING:
    from pathlib import Path


def java(folder: Path, text: str = "java") -> Path:
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "bin" / "java").write_text(text)
    return folder


def environ(tmp_path: Path, home: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "JAVA_HOME": str(home)}


def draft_of(archive: Path) -> Path:
    option = store_options(archive).split('"')[1]
    return archive.with_name(option.rpartition("/")[2])


def ended(status: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.stdin.read(); sys.exit({status})"],
        stdin=subprocess.PIPE,
    )


def test_archive_belongs_to_one_java(tmp_path: Path) -> None:
    one, other = java(tmp_path / "one"), java(tmp_path / "other", "another")
    path = archive_path(environ(tmp_path, one))
    assert path is not None
    assert path == archive_path(environ(tmp_path, one))
    assert path != archive_path(environ(tmp_path, other))
    assert path.parent == tmp_path / "cache" / "kafkalite"


def test_without_java_or_cache_there_is_no_archive(tmp_path: Path) -> None:
    assert archive_path(environ(tmp_path, tmp_path / "missing")) is None
    (tmp_path / "file").write_text("")
    without_cache = {"XDG_CACHE_HOME": str(tmp_path / "file")}
    assert archive_path(environ(tmp_path, java(tmp_path / "one")) | without_cache) is None


def test_stored_archive_replaces_those_of_other_versions(tmp_path: Path) -> None:
    archive, former = (tmp_path / f"spark-classes-{name}.jsa" for name in ("new", "former"))
    former.write_text("former")
    draft_of(archive).write_text("classes")
    store(archive, ended(0))
    assert archive.read_text() == "classes"
    assert [*tmp_path.iterdir()] == [archive]


@pytest.mark.parametrize("status", [0, 1])
def test_failure_leaves_the_archives_as_they_are(tmp_path: Path, status: int) -> None:
    archive, former = (tmp_path / f"spark-classes-{name}.jsa" for name in ("new", "former"))
    former.write_text("former")
    if status:
        draft_of(archive).write_text("cut")
    store(archive, ended(status))
    assert [*tmp_path.iterdir()] == [former]


def test_path_with_a_space_is_one_option(tmp_path: Path) -> None:
    archive = tmp_path / "a folder" / "x.jsa"
    assert f'"-XX:SharedArchiveFile={archive}"' in use_options(archive)
    assert store_options(archive).startswith(f'"-XX:ArchiveClassesAtExit={archive}.')
