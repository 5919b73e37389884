"""Generated is generated: what is committed is what the specs give today."""

from pathlib import Path

from kafkalite.protocol.generate import ROOT, SHELVES, render, write


def test_no_generated_file_has_drifted() -> None:
    files = render()
    drifted = [
        name
        for name, text in files.items()
        if not (ROOT / name).exists() or (ROOT / name).read_text(encoding="utf-8") != text
    ]
    strangers = [
        path.relative_to(ROOT).as_posix()
        for shelf in SHELVES
        for path in (ROOT / shelf).glob("*.py")
        if path.relative_to(ROOT).as_posix() not in files
    ]
    assert (drifted, strangers) == ([], []), "run python -m kafkalite.protocol.generate"


def test_writing_removes_what_is_no_longer_generated(tmp_path: Path) -> None:
    stranger = tmp_path / "codecs" / "broker" / "old_v0.py"
    stranger.parent.mkdir(parents=True)
    stranger.touch()
    assert write(tmp_path) > 1
    assert not stranger.exists()
    assert write(tmp_path) == 0
