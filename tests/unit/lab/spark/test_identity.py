"""The identities of the decoder and of the audits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import kafkalite
from kafkalite.lab.spark import identity
from kafkalite.lab.spark.identity import DECODER_PATHS

if TYPE_CHECKING:
    import pytest

PACKAGE = Path(kafkalite.__file__).parent

PROGRAM = """
import sys
import kafkalite.lab.spark.stages.decoding
import kafkalite.lab.spark.stages.stitching
for name, module in sorted(sys.modules.items()):
    if name.startswith("kafkalite.") and not module.__file__.endswith("__init__.py"):
        print(module.__file__)
"""


def test_identity_covers_all_modules_that_the_decoder_imports() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    imported = {Path(line).relative_to(PACKAGE) for line in done.stdout.splitlines()}
    assert Path("lab/columnar/reading.py") in imported
    covered = [Path(name) for name in DECODER_PATHS]
    missing = {path for path in imported if not any(path.is_relative_to(each) for each in covered)}
    assert missing == set()


def test_identity_changes_with_a_module_and_not_with_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("__init__.py", "lab/columnar/reading.py", "lab/spark/pipeline.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(identity, "_PACKAGE", tmp_path)
    monkeypatch.setattr(identity, "DECODER_PATHS", ("lab/columnar",))
    monkeypatch.setattr(identity, "AUDIT_PATHS", ("lab/spark",))

    def hashes() -> tuple[str, str]:
        return identity.decoder_hash.__wrapped__(), identity.audits_hash.__wrapped__()

    decoder, audits = hashes()
    (tmp_path / "__init__.py").write_text("2")
    assert hashes() == (decoder, audits)
    (tmp_path / "lab/spark/pipeline.py").write_text("2")
    assert hashes()[0] == decoder
    assert hashes()[1] != audits
    (tmp_path / "lab/columnar/reading.py").write_text("2")
    assert hashes()[0] != decoder
