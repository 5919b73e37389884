"""A root file system of Debian with Python, made of Debian's packages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.oracle.build_cache import build_once, run_build
from tests.oracle.requirements import program

_RELEASE = "trixie"
"""Debian 13, the first with Python 3.13."""
_PACKAGES = "python3,python3-venv,ca-certificates"
_DEFAULT_MIRROR = "http://deb.debian.org/debian"
_TIMEOUT_S = 900.0
_UNUSED = (
    "var/cache/apt",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/locale",
    "usr/share/man",
)
"""Directories that the real image does not have, and that no test needs."""


def root_archive() -> Path:
    """Return the root file system as a tar file, from the cache if it exists.

    Raises MissingProgramError without debootstrap, and UnavailableError without the packages.
    """
    return build_once(f"debian-{_RELEASE}", [Path(__file__)], _bootstrap) / "root.tar"


def _bootstrap(directory: Path) -> None:
    root = directory / "root"
    command = [program("debootstrap"), "--variant=minbase", f"--include={_PACKAGES}"]
    run_build([*command, _RELEASE, str(root), _mirror()], directory, _TIMEOUT_S)
    run_build(["chroot", str(root), "python3", "-m", "venv", "/usr/local"], directory)
    for each in _UNUSED:
        shutil.rmtree(root / each)
        (root / each).mkdir()
    run_build(["tar", "--create", "--file=root.tar", f"--directory={root}", "."], directory)
    shutil.rmtree(root)


def _mirror() -> str:
    """Return the address of Debian's archive in the settings of apt, else the public one."""
    if shutil.which("apt-get") is None:
        return _DEFAULT_MIRROR
    columns = "$(ORIGIN) $(REPO_URI) $(CODENAME)"
    completed = subprocess.run(
        ["apt-get", "indextargets", "--format", columns, "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in completed.stdout.splitlines():
        origin, address, codename = line.split(" ")
        if origin == "Debian" and codename.isalpha():
            return address
    return _DEFAULT_MIRROR
