"""An archive of the classes that Java loads for Spark, with which Spark starts in half the time.

Java reads and verifies about twenty thousand classes when Spark starts. With an archive of them, it
maps them into memory instead (class data sharing). The archive is a file of the cache directory. It
belongs to one Java and one Spark. Java ignores an archive that does not match, or is incomplete.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Final

import pyspark

from kafkalite.ports.cache import persistent_directory

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

_NAME: Final = "spark-classes-"
_QUIET: Final = "-Xlog:disable"
"""Java would print a warning for each class that it cannot archive, and for an unusable archive."""
_TIMEOUT_S: Final = 120


def archive_path(environ: Mapping[str, str]) -> Path | None:
    """Return the path of the archive, whether it exists or not; None without a cache directory.

    `environ` must have the JAVA_HOME that Spark uses, if any.
    """
    java = _java(environ)
    cache = None if java is None else persistent_directory(environ)
    if java is None or cache is None:
        return None
    jars = Path(pyspark.__file__).parent / "jars"
    digest = hashlib.sha256(pyspark.__version__.encode())
    for path in (java, jars):
        status = path.stat()
        digest.update(f"\0{path}\0{status.st_size}\0{status.st_mtime_ns}".encode())
    return cache / f"{_NAME}{digest.hexdigest()[:16]}.jsa"


def use_options(archive: Path) -> str:
    """Return options with which Java uses an archive, as text that Spark's launcher splits."""
    return f'"-XX:SharedArchiveFile={archive}" {_QUIET}'


def store_options(archive: Path) -> str:
    """Return options with which Java writes an archive when it ends; `store` then completes it."""
    return f'"-XX:ArchiveClassesAtExit={_draft(archive)}" {_QUIET}'


def store(archive: Path, java: subprocess.Popen[bytes]) -> None:
    """End Java, which has been started with `store_options`, and store its archive.

    Archives of other versions are deleted. After a failure there is no archive.
    """
    draft = _draft(archive)
    try:
        if java.stdin is not None:
            java.stdin.close()
        if java.wait(_TIMEOUT_S) == 0 and draft.exists():
            for other in archive.parent.glob(f"{_NAME}*.jsa"):
                other.unlink(missing_ok=True)
            draft.replace(archive)
    except (OSError, TimeoutExpired):
        pass
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _draft(archive: Path) -> Path:
    return archive.with_name(f"{archive.name}.{os.getpid()}")


def _java(environ: Mapping[str, str]) -> Path | None:
    home = environ.get("JAVA_HOME")
    found = Path(home) / "bin" / "java" if home else shutil.which("java", path=environ.get("PATH"))
    with suppress(OSError):
        if found:
            return Path(found).resolve(strict=True)
    return None
