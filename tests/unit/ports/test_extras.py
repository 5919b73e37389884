"""How users install the extras of kafkalite."""

from __future__ import annotations

import re
import tomllib

from kafkalite.ports.extras import install_command
from tests.architecture.source import ROOT

CALL = re.compile(r"""install_command\(["']([^"']+)["']\)""")


def test_a_text_names_the_extra_for_an_index_and_for_a_clone() -> None:
    assert install_command("spark") == (
        "pip install 'kafkalite[spark]', or pip install '.[spark]' in a clone of kafkalite"
    )


def test_each_named_extra_exists() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "kafkalite").rglob("*.py")]
    named = {extra for source in sources for extra in CALL.findall(source)}
    assert named == {"capture", "console", "security", "spark", "sweep", "telemetry"}
    assert named <= settings["project"]["optional-dependencies"].keys()
    assert sum("pip install 'kafkalite[" in source for source in sources) == 1
