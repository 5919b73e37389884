"""The project's own source, as the architecture tests read it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "kafkalite"
GENERATED = tuple(PACKAGE / "protocol" / name for name in ("codecs", "messages", "records"))


@cache
def hand_written_modules() -> tuple[Path, ...]:
    """Return every module of the package that a person wrote, in a stable order."""
    return tuple(
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if not any(path.is_relative_to(generated) for generated in GENERATED)
        and path != PACKAGE / "protocol" / "error_codes.py"
    )


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of one module."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def module_name(path: Path) -> str:
    """Return the dotted name by which a module is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def storey_of(path: Path) -> str:
    """Return the package directly below kafkalite that a module belongs to."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0].removesuffix(".py")
