"""Shell completions: the scripts complete commands and options."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.completion import SHELLS
from kafkalite.cli.main import main
from kafkalite.cli.parsing import all_commands

if TYPE_CHECKING:
    from pathlib import Path

COMPLETE = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
function=$(complete -p kafkalite)
function=${function##*-F }
"${function%% *}" kafkalite
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_script_names_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", shell])
    script = capsys.readouterr().out
    assert [each.name for each in all_commands() if each.name not in script] == []
    assert "listen" in script  # tcsh scripts omit the dashes


def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    main(["completion", "bash"])
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out, encoding="utf-8")

    def complete(*words: str) -> list[str]:
        completed = subprocess.run(
            [bash, "-c", COMPLETE, "bash", script, *words],
            capture_output=True,
            text=True,
            check=True,
        )
        return completed.stdout.split()

    assert complete("kafkalite", "se") == ["serve"]
    assert complete("kafkalite", "serve", "--as-v") == ["--as-version"]
    assert set(complete("kafkalite", "completion", "")) >= set(SHELLS)


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "fish"])
    assert "fish" in capsys.readouterr().err
