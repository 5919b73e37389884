"""A new audit needs one module and its name in the list of audits."""

from __future__ import annotations

import os
import subprocess
import sys
from shutil import copytree, ignore_patterns
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import PACKAGE, ROOT, changed_files

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

MODULE = '''\
"""Audit of greetings: the clients that asked for the versions of APIs."""

from kafkalite.lab.spark.audits.contract import Audit
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.tables import table

GREETINGS = table(
    "greetings",
    "A client that asked for the versions of APIs",
    ("client", "string", "the client: host:port"),
    ("requests", "bigint", "number of its requests"),
)


def greetings(requests, options):
    rows = requests.of("ApiVersions").groupBy("client").agg(f.count("client").alias("requests"))
    return {GREETINGS.name: GREETINGS.shape(rows)}


GREETED = Audit("greeted", "clients that asked for versions", (GREETINGS,), greetings)
'''

CAPTURE = ROOT / "tests" / "captures" / "kafka-4.4.0" / "member-lives.pcapng.gz"


def test_a_module_and_a_name_reach_the_tables_their_description_and_the_pages(
    tmp_path: Path,
) -> None:
    package = tmp_path / "kafkalite"
    copytree(PACKAGE, package, ignore=ignore_patterns("__pycache__", "specs", "docker"))
    copytree(ROOT / "protocol-specs", tmp_path / "protocol-specs")
    audits = package / "lab" / "spark" / "audits"
    (audits / "greetings.py").write_text(MODULE, encoding="utf-8")
    listed = (audits / "__init__.py").read_text(encoding="utf-8")
    for before, after in (
        ("PRODUCERS, HEALTH)", "PRODUCERS, HEALTH, GREETED)"),
        (
            "from kafkalite.lab.spark.audits.health import",
            "from kafkalite.lab.spark.audits.greetings import GREETED\n{before}",
        ),
    ):
        assert listed.count(before) == 1
        listed = listed.replace(before, after.format(before=before))
    (audits / "__init__.py").write_text(listed, encoding="utf-8")
    assert changed_files(tmp_path) == [
        "kafkalite/lab/spark/audits/__init__.py",
        "kafkalite/lab/spark/audits/greetings.py",
    ]
    completed = subprocess.run(
        [sys.executable, ROOT / "tests" / "architecture" / "new_audit_probe.py", tmp_path, CAPTURE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-4000:]
