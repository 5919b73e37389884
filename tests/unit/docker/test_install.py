"""Scripts and directories of Kafka images below a root."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kafkalite.docker.files import parse_properties
from kafkalite.docker.install import (
    DIRECTORIES,
    ENTRYPOINT,
    PROPERTIES,
    SCRIPTS,
    install,
    links,
    main,
)
from kafkalite.docker.programs import TOOLS
from kafkalite.docker.start import plan_from


def test_links_lead_to_the_entrypoint(tmp_path: Path) -> None:
    install(tmp_path)
    install(tmp_path)
    entrypoint = tmp_path / ENTRYPOINT.lstrip("/")
    for path in links():
        link = tmp_path / path.lstrip("/")
        assert link.is_symlink()
        assert Path(os.path.normpath(link.parent / link.readlink())) == entrypoint
    for directory in DIRECTORIES:
        assert (tmp_path / directory.lstrip("/")).stat().st_mode & 0o777 == 0o777


def test_each_tool_is_in_the_directory_of_each_image() -> None:
    paths = set(links())
    assert "/usr/bin/nc" in paths
    for tool in TOOLS.keys() - {"nc"}:
        assert {
            f"/opt/kafka/bin/{tool}.sh",
            f"/opt/bitnami/kafka/bin/{tool}.sh",
            f"/usr/bin/{tool}",
        } <= paths
    assert {
        "/__cacert_entrypoint.sh",
        "/etc/kafka/docker/run",
        "/opt/bitnami/scripts/kafka/run.sh",
        "/usr/bin/start-kafka.sh",
    } <= paths


@pytest.mark.parametrize("path", SCRIPTS)
def test_scripts_are_valid(path: str, tmp_path: Path) -> None:
    install(tmp_path)
    script = tmp_path / path.lstrip("/")
    assert os.access(script, os.X_OK)
    subprocess.run(["sh", "-n", str(script)], check=True)


@pytest.mark.parametrize("path", PROPERTIES)
def test_properties_are_those_of_one_node(path: str, tmp_path: Path) -> None:
    install(tmp_path)
    text = (tmp_path / path.lstrip("/")).read_text()
    plan = plan_from({}, "host", parse_properties(text, path))
    (spec,) = plan.settings.listeners
    assert f"{spec.advertised}" == "localhost:9092"
    assert plan.translation.membership is None


def test_first_processes_start_with_blocked_signals(tmp_path: Path) -> None:
    entrypoint = tmp_path / ENTRYPOINT.lstrip("/")
    entrypoint.parent.mkdir(parents=True)
    entrypoint.write_text("#!/usr/bin/env python3\npass\n")
    main([str(tmp_path), str(os.getuid())])
    blocking = "#!/usr/bin/env -S --block-signal=INT,TERM"
    assert entrypoint.read_text() == f"{blocking} /usr/local/bin/python3\npass\n"
    script = (tmp_path / "etc/confluent/docker/run").read_text()
    _, _, rest = SCRIPTS["/etc/confluent/docker/run"].partition("\n")
    assert script == f"{blocking} /bin/sh\n{rest}"
