"""Identities of the code that makes the tables: hashes of its modules.

A release that changes neither the decoder nor the schemas of messages keeps the tables of earlier
releases.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import kafkalite

if TYPE_CHECKING:
    from collections.abc import Iterable

_PACKAGE: Final = Path(kafkalite.__file__).parent

DECODER_PATHS: Final = (
    "ports",
    "protocol",
    "lab/columnar",
    "capture/formats",
    "capture/model.py",
    "capture",
    "lab/spark/locations.py",
    "lab/spark/stages",
    "wire/headers.py",
)
"""Modules and packages that determine the decoded tables; the generated ones have the schemas."""
AUDIT_PATHS: Final = ("groups/modern/offset_commit_fencing.py", "lab/spark")
"""Modules and packages that determine the audits, in addition to those of the decoder."""


@cache
def decoder_hash() -> str:
    """Return the identity of the decoder and the schemas of the tables that it writes."""
    return _hash_of(DECODER_PATHS)


@cache
def audits_hash() -> str:
    """Return the identity of the audits and of the decoder."""
    return _hash_of((*DECODER_PATHS, *AUDIT_PATHS))


def _hash_of(paths: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for path in sorted({each for name in paths for each in _modules(_PACKAGE / name)}):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_PACKAGE).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _modules(path: Path) -> Iterable[Path]:
    return path.rglob("*.py") if path.is_dir() else (path,)
