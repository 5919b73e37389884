"""Our own package as a zip file, for executors that do not have it installed.

Executors need the dependencies: numpy, pyarrow, and the other packages of `kafkalite[columnar]`.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import kafkalite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_PACKAGE: Final = Path(kafkalite.__file__).parent
_SPECS: Final = "protocol-specs"
_ZIP_TIME: Final = (1980, 1, 1, 0, 0, 0)


def ship(session: SparkSession, cache: Path) -> None:
    """Send our package to the session's executors."""
    session.addArtifacts(str(zip_package(cache)), pyfile=True)


def zip_package(cache: Path) -> Path:
    """Return the path of a zip of our package; it is written unless the cache has it already."""
    files = sorted(_files())
    digest = hashlib.sha256()
    for name, path in files:
        digest.update(f"{name}\0{path.stat().st_size}\0{path.stat().st_mtime_ns}\0".encode())
    archive = cache / f"kafkalite-{kafkalite.__version__}-{digest.hexdigest()[:16]}.zip"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        draft = archive.with_name(f"{archive.name}.{os.getpid()}")
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, path in files:
                packed.writestr(zipfile.ZipInfo(name, _ZIP_TIME), path.read_bytes())
        draft.replace(archive)
    return archive


def _files() -> Iterator[tuple[str, Path]]:
    for path in _PACKAGE.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"{_PACKAGE.name}/{path.relative_to(_PACKAGE).as_posix()}", path
    # A checkout has the specs next to the package; an installed package contains them.
    checkout = _PACKAGE.parent / _SPECS
    if checkout.is_dir() and not (_PACKAGE / "protocol" / "specs").is_dir():
        for path in checkout.rglob("*"):
            if path.is_file():
                yield (
                    f"{_PACKAGE.name}/protocol/specs/{path.relative_to(checkout).as_posix()}",
                    path,
                )
