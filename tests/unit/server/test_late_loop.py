"""LateLoop: lines about times in which the event loop did not run."""

from __future__ import annotations

import io

from kafkalite.server.late_loop import INTERVAL_S, LateLoop
from kafkalite.server.logging import Level, Log


def test_a_late_loop_is_logged_at_most_once_in_an_interval() -> None:
    stream = io.StringIO()
    late_loop = LateLoop(Log(Level.DEBUG, style="json", stream=stream))
    late_loop.report(1.04, now_s=50.0)
    assert '"late_by_ms": 1040' in stream.getvalue()
    for lateness_s in (0.7, 2.5, 0.6):
        late_loop.report(lateness_s, now_s=51.0)
    assert stream.getvalue().count("the event loop was late") == 1
    late_loop.report(0.8, now_s=50.0 + INTERVAL_S)
    _, line = stream.getvalue().splitlines()
    assert '"late_by_ms": 2500' in line
    assert '"times": 4' in line
