"""Our own package, as a zip for executors that do not have it installed.

What it needs of others (numpy, pyarrow, and what `kafkalite[columnar]` names) they must have.
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
_LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)


def ship(session: SparkSession, cache: Path) -> None:
    """Give the session's executors our package."""
    session.addArtifacts(str(package(cache)), pyfile=True)


def package(cache: Path) -> Path:
    """Return a zip of the package, made where there is none of its contents yet."""
    files = sorted(_files())
    digest = hashlib.sha256()
    for name, path in files:
        digest.update(f"{name}\0{path.stat().st_size}\0{path.stat().st_mtime_ns}\0".encode())
    made = cache / f"kafkalite-{kafkalite.__version__}-{digest.hexdigest()[:16]}.zip"
    if not made.exists():
        cache.mkdir(parents=True, exist_ok=True)
        draft = made.with_name(f"{made.name}.{os.getpid()}")
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, path in files:
                packed.writestr(zipfile.ZipInfo(name, _LONG_AGO), path.read_bytes())
        draft.replace(made)
    return made


def _files() -> Iterator[tuple[str, Path]]:
    for path in _PACKAGE.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"{_PACKAGE.name}/{path.relative_to(_PACKAGE).as_posix()}", path
    # In a checkout the specs lie beside the package; installed, within.
    checkout = _PACKAGE.parent / _SPECS
    if checkout.is_dir() and not (_PACKAGE / "protocol" / "specs").is_dir():
        for path in checkout.rglob("*"):
            if path.is_file():
                yield (
                    f"{_PACKAGE.name}/protocol/specs/{path.relative_to(checkout).as_posix()}",
                    path,
                )
