"""The project's source files, their module names and syntax trees."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "kafkalite"
GENERATED = PACKAGE / "protocol" / "_generated"
GENERATED_MODULES = tuple(
    PACKAGE / "protocol" / f"{name}.py" for name in ("api_keys", "error_codes")
)


@cache
def hand_written_modules() -> tuple[Path, ...]:
    """Return every module of the package that is not generated, sorted by path."""
    return tuple(
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.is_relative_to(GENERATED) and path not in GENERATED_MODULES
    )


def changed_files(copy: Path) -> list[str]:
    """Return the files of the package and of its specs that a copy adds or changes."""
    return sorted(
        str(path.relative_to(copy))
        for folder in ("kafkalite", "protocol-specs")
        for path in (copy / folder).rglob("*")
        if path.is_file() and not _has_content(ROOT / path.relative_to(copy), path.read_bytes())
    )


def _has_content(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of one module.

    Garbage is not collected meanwhile, and never among the trees of all modules: a million objects
    that live as long as the process.
    """
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    finally:
        gc.freeze()
        gc.enable()


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the syntax tree of one module, which several rules read."""
    return tuple(ast.walk(tree_of(path)))


def module_name(path: Path) -> str:
    """Return a module's dotted name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(path: Path) -> str:
    """Return the package of a module: the name below `kafkalite`, or below `kafkalite.lab`."""
    parts = path.relative_to(PACKAGE).parts
    depth = 2 if parts[0] == "lab" else 1
    return ".".join(parts[:depth]).removesuffix(".py")
