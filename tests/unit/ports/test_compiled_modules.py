"""CompiledModuleFinder: it loads what importlib would load, and leaves the rest to importlib."""

from __future__ import annotations

import importlib
import os
import py_compile
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from kafkalite.ports.compiled_modules import CompiledModuleFinder

PACKAGE = "compiled_sample"
TIME_S = 1_700_000_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return the directory of a compiled package with a module and a package."""
    directory = tmp_path / PACKAGE
    (directory / "inner").mkdir(parents=True)
    for name, text in (
        ("__init__", ""),
        ("module", "VALUE = 1\ndef where(): return where.__code__.co_filename\n"),
        ("inner/__init__", "VALUE = 2\n"),
    ):
        source = directory / f"{name}.py"
        source.write_text(text)
        os.utime(source, (TIME_S, TIME_S))
        py_compile.compile(
            str(source), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP, doraise=True
        )
    return directory


@pytest.fixture
def finder() -> CompiledModuleFinder:
    """Return a finder for the package."""
    return CompiledModuleFinder(PACKAGE, str(Path(os.__file__).parent))


@pytest.mark.parametrize("name", ["module", "inner"])
def test_specs_are_those_of_importlib(
    finder: CompiledModuleFinder, directory: Path, name: str
) -> None:
    path = [str(directory)]
    found = finder.find_spec(f"{PACKAGE}.{name}", path)
    expected = PathFinder.find_spec(f"{PACKAGE}.{name}", path)
    assert found is not None
    assert expected is not None
    for attribute in ("name", "origin", "cached", "has_location", "parent"):
        assert getattr(found, attribute) == getattr(expected, attribute)
    assert found.submodule_search_locations == expected.submodule_search_locations


def test_a_module_runs_and_can_be_reloaded(
    finder: CompiledModuleFinder, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finders = [*sys.meta_path]
    finders.insert(finders.index(PathFinder), finder)
    monkeypatch.setattr(sys, "meta_path", finders)
    monkeypatch.syspath_prepend(str(directory.parent))
    source = directory / "module.py"
    try:
        module = importlib.import_module(f"{PACKAGE}.module")
        assert type(module.__loader__).__module__ == CompiledModuleFinder.__module__
        assert (module.VALUE, module.where(), module.__file__) == (1, str(source), str(source))
        source.write_text("VALUE = 30\n")
        assert importlib.reload(module).VALUE == 30
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
            del sys.modules[name]


def test_a_changed_source_is_left_to_importlib(
    finder: CompiledModuleFinder, directory: Path
) -> None:
    name, path = f"{PACKAGE}.module", [str(directory)]
    source = directory / "module.py"
    os.utime(source, (TIME_S + 1, TIME_S + 1))
    assert finder.find_spec(name, path) is None
    source.write_text("VALUE = 3\n")
    os.utime(source, (TIME_S, TIME_S))
    assert finder.find_spec(name, path) is None


def test_other_compiled_files_are_left_to_importlib(
    finder: CompiledModuleFinder, directory: Path
) -> None:
    name, path = f"{PACKAGE}.module", [str(directory)]
    source = directory / "module.py"
    py_compile.compile(
        str(source), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH, doraise=True
    )
    assert finder.find_spec(name, path) is None
    compiled = next((directory / "__pycache__").glob("module.*"))
    compiled.write_bytes(b"another magic number")
    assert finder.find_spec(name, path) is None
    compiled.unlink()
    assert finder.find_spec(name, path) is None


def test_other_packages_and_missing_modules_are_left_to_importlib(
    finder: CompiledModuleFinder, directory: Path
) -> None:
    assert finder.find_spec("another.module", [str(directory)]) is None
    assert finder.find_spec(PACKAGE) is None
    assert finder.find_spec(f"{PACKAGE}.missing", [str(directory)]) is None


def test_the_command_finds_modules_so() -> None:
    code = """
import sys
from kafkalite import __main__
finders = [type(each).__name__ for each in sys.meta_path]
assert finders.index("CompiledModuleFinder") == len(finders) - 2, finders
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
