"""The committed files are up to date with the specs, and are marked as generated."""

from fnmatch import fnmatch
from pathlib import Path

from kafkalite.protocol.generator.files import PACKAGES, ROOT, render, write
from kafkalite.protocol.generator.source import HEADER

_REPOSITORY = ROOT.parents[1]


def test_no_generated_file_has_drifted() -> None:
    files = render()
    drifted = [
        name
        for name, text in files.items()
        if not (ROOT / name).exists() or (ROOT / name).read_text(encoding="utf-8") != text
    ]
    unexpected = [
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).glob("*.py")
        if path.relative_to(ROOT).as_posix() not in files
    ]
    assert (drifted, unexpected) == ([], []), "run python -m kafkalite.protocol.generator"


def test_every_generated_file_is_marked() -> None:
    assert "@generated" in HEADER
    paths = [ROOT / name for name in render()]
    assert {*ROOT.glob("_generated/**/*.py")} < {*paths}
    unmarked = [path for path in paths if not path.read_text("utf-8").startswith(f"{HEADER}\n")]
    assert unmarked == []


def test_code_review_tools_know_generated_files() -> None:
    lines = (_REPOSITORY / ".gitattributes").read_text("utf-8").splitlines()
    patterns = [line.split()[0] for line in lines if line.endswith(" linguist-generated=true")]
    paths = [(ROOT / name).relative_to(_REPOSITORY).as_posix() for name in render()]
    matched = {path for path in paths for pattern in patterns if fnmatch(path, pattern)}
    assert {*paths} - matched == set()


def test_writing_removes_modules_that_are_no_longer_generated(tmp_path: Path) -> None:
    outdated = tmp_path / "_generated" / "codecs" / "broker" / "old_v0.py"
    outdated.parent.mkdir(parents=True)
    outdated.touch()
    assert write(tmp_path) > 1
    assert not outdated.exists()
    assert write(tmp_path) == 0
