"""The Python interpreters of this machine, one of each supported version."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
PYTHONS = "KAFKALITE_TEST_PYTHONS"
"""Variable with the paths of more interpreters, divided by colons."""


def interpreter(version: str) -> Path | None:
    """Return an interpreter of a version; None if the machine has none that works.

    They are those of PYTHONS, of the search path, and of pyenv.
    """
    named = [Path(path) for path in os.environ.get(PYTHONS, "").split(os.pathsep) if path]
    found = shutil.which(f"python{version}")
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    installed = sorted(pyenv.glob(f"{version}.*/bin/python3"))
    candidates = [*named, *([Path(found)] if found else []), *reversed(installed)]
    return next((path for path in candidates if _version(path) == version), None)


def _version(path: Path) -> str | None:
    """Return the version of an interpreter; None if it does not run."""
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [path, "-c", question], capture_output=True, text=True, timeout=30, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
