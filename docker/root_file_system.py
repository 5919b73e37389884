#!/usr/bin/env python3
"""Make the root file system of the image: Python, kafkalite, a shell, and what they need to run.

`python root_file_system.py TARGET` copies them from the file system in which it runs, a Debian with
Python, bash, busybox and the packages in /usr/local. Most of such a file system is not copied: the
package managers, the tests of Python, and the libraries of other programs.
"""

from __future__ import annotations

import compileall
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))
PACKAGES = Path(sysconfig.get_path("purelib"))
INTERPRETER = Path(sys.executable)
BASH = Path("/usr/bin/bash")
BUSYBOX = Path("/usr/bin/busybox")
ENV = Path("/usr/bin/env")
"""That of GNU, which can block signals; the one of busybox cannot."""
MERGED = ("bin", "lib", "lib64", "sbin")
"""Directories that are links to those of the same name in /usr."""
FILES = (
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/openssl.cnf",
    "/usr/lib/ssl",
    "/etc/os-release",
    "/usr/lib/os-release",
    "/etc/nsswitch.conf",
)
WITHOUT = shutil.ignore_patterns(
    "_codecs_*.so", "config-*", "curses", "_curses*.so", "dbm", "_dbm*.so", "dist-packages",
    "doctest.py", "ensurepip", "_gdbm*.so", "idlelib", "imaplib.py", "lib2to3", "mailbox.py",
    "_multibytecodec*.so", "pickletools.py", "poplib.py", "__pycache__", "_pydatetime.py",
    "_pydecimal.py", "pydoc.py", "pydoc_data", "_pyio.py", "_pyrepl", "readline*.so",
    "site-packages", "sqlite3", "_sqlite3*.so", "test", "_test*.so", "tkinter", "_tkinter*.so",
    "turtle.py", "turtledemo", "wsgiref", "xmlrpc", "xxlimited*.so",
)  # fmt: skip
"""Parts of Python's standard library that no program of the image imports."""
USER = 10001
HOME = "/var/lib/kafkalite"
_LIBRARY = re.compile(r"(/\S+)(?: \(0x[0-9a-f]+\))$")


def libraries(programs: list[Path]) -> set[Path]:
    """Return the libraries that these programs and modules load, with the libraries of those."""
    found = set()
    for each in programs:
        done = subprocess.run(["ldd", each], capture_output=True, text=True, check=False)  # noqa: S603, S607
        lines = done.stdout.splitlines()
        found |= {Path(match[1]) for line in lines if (match := _LIBRARY.search(line))}
    return found


class Root:
    """The root file system that is made, in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def at(self, path: Path | str) -> Path:
        """Return the place of a path in the new root."""
        return self._directory / str(path).lstrip("/")

    def make(self, path: str, mode: int = 0o755) -> None:
        """Make a directory."""
        self.at(path).mkdir(parents=True, exist_ok=True)
        self.at(path).chmod(mode)

    def copy(self, path: Path) -> None:
        """Copy a file or directory; a link is copied with what it refers to."""
        target = self.at(path)
        if os.path.lexists(target):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            target.symlink_to(path.readlink())
            self.copy(path.parent / path.readlink())
        elif path.is_dir():
            shutil.copytree(path, target, symlinks=True)
        else:
            shutil.copy2(path, target)

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        self.at(path).write_text(text, encoding="utf-8")


def make_directories(root: Root) -> None:
    """Make the directories of a root, with links for those that are in /usr."""
    for name in MERGED:
        root.make(f"/usr/{name}")
        root.at(name).symlink_to(f"usr/{name}")
    for path in ("/dev", "/etc", "/proc", "/root", "/run", "/sys", "/var/lib", HOME):
        root.make(path)
    for path in ("/tmp", "/var/tmp"):  # noqa: S108 - of the new root
        root.make(path, 0o1777)
    os.chown(root.at(HOME), USER, USER)


def copy_python(root: Root) -> list[Path]:
    """Copy Python and the packages; returns the programs and modules in machine code."""
    library = root.at(STANDARD_LIBRARY)
    shutil.copytree(STANDARD_LIBRARY, library, ignore=WITHOUT, symlinks=True)
    # Only the compiled modules of the standard library: its sources are a tenth of the image.
    compileall.compile_dir(library, quiet=1, stripdir=root.at("/"), prependdir="/", legacy=True)
    for path in library.rglob("*.py"):
        path.unlink()
    ignored = shutil.ignore_patterns("pip", "pip-*.dist-info")
    shutil.copytree(PACKAGES, root.at(PACKAGES), ignore=ignored, symlinks=True)
    programs = [Path("/usr/local/bin") / name for name in ("python", "python3")]
    for path in (INTERPRETER, *programs, Path("/usr/local/pyvenv.cfg")):
        if path.exists():
            root.copy(path)
    for path in Path("/usr/local/bin").glob("kafkalite*"):
        root.copy(path)
    copied = [each for place in (STANDARD_LIBRARY, PACKAGES) for each in place.rglob("*.so*")]
    return [INTERPRETER.resolve(), *(each for each in copied if root.at(each).exists())]


def copy_shell(root: Root) -> None:
    """Copy bash, env and busybox, and make a link to busybox for each other command it has."""
    root.copy(BASH)
    root.copy(ENV)
    # The shell of busybox would run its own nc in place of the image's.
    root.at("/usr/bin/sh").symlink_to(BASH.name)
    root.copy(BUSYBOX)
    done = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True)  # noqa: S603
    for command in done.stdout.split():
        link = root.at(f"/usr/bin/{command}")
        if not os.path.lexists(link):
            link.symlink_to("busybox")


def main(target: str) -> None:
    """Make the root file system in the directory `target`."""
    root = Root(Path(target))
    make_directories(root)
    programs = copy_python(root)
    copy_shell(root)
    for path in (*map(Path, FILES), *libraries([*programs, BASH, ENV, BUSYBOX])):
        if path.exists():
            root.copy(path)
    for path in Path("/usr/lib").glob("*/ossl-modules/legacy.so"):
        root.copy(path)
    root.write(
        "/etc/passwd",
        f"root:x:0:0:root:/root:/bin/sh\nkafkalite:x:{USER}:{USER}::{HOME}:/bin/sh\n",
    )
    root.write("/etc/group", f"root:x:0:\nkafkalite:x:{USER}:\n")


if __name__ == "__main__":
    main(sys.argv[1])
