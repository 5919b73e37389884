"""The compose file that shows Spark at work says what is true of the files and options it names."""

from __future__ import annotations

from typing import Any

import yaml

from tests.unit.docker.image import DOCKER

COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.spark.yaml").read_text())
SERVICES = COMPOSE["services"]


def test_the_stream_runs_the_job_that_is_tested_at_the_broker() -> None:
    command = SERVICES["orders"]["command"]
    broker = SERVICES["kafkalite"]
    (mount,) = SERVICES["orders"]["volumes"]
    host, inside, _ = mount.split(":")

    job = command.index(f"{inside}/orders.py")
    assert (DOCKER / host / "orders.py").is_file()
    assert f"://{command[job + 1]}" in broker["environment"]["KAFKALITE_ADVERTISE"]
    assert [
        topic.split(":")[0] for topic in broker["environment"]["KAFKALITE_TOPICS"].split(",")
    ] == (command[job + 2 : job + 4])


def test_the_connector_is_of_the_release_of_the_spark_that_it_is_for() -> None:
    orders = SERVICES["orders"]
    packages = orders["command"][orders["command"].index("--packages") + 1]

    assert orders["image"] == f"apache/spark:{packages.rpartition(':')[2]}-python3"


def test_the_audit_reads_what_the_broker_captures() -> None:
    captured = SERVICES["kafkalite"]["environment"]["KAFKALITE_CAPTURE"]
    command = SERVICES["audit"]["command"][-1]

    assert f"kafkalite audit {captured} " in command
    assert any(captured.startswith(mount.split(":")[1]) for mount in SERVICES["audit"]["volumes"])
