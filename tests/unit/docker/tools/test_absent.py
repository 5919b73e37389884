"""Scripts that are not in the image."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.docker.tools.tool import ToolRunner


def test_the_reason_is_printed(offline_tools: ToolRunner) -> None:
    result = offline_tools.run("kafka-jmx", "--help")
    assert (result.status, result.lines) == (1, [])
    assert result.error == (
        "kafka-jmx is not in this image: it reads the metrics of a Java virtual machine, and the "
        "broker is not in Java\n"
    )
