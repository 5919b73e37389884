"""The results of a sweep as an HTML page."""

from __future__ import annotations

from kafkalite.lab.sweep.page import html_page
from kafkalite.lab.sweep.sweep import SweepOptions
from tests.unit.lab.sweep.seen import RESULTS


def test_the_page_has_the_table_and_the_findings() -> None:
    page = html_page(RESULTS, SweepOptions(command=("pytest", "a<b")), 4)
    assert "4 cases: 2 survived, 1 failed, 1 slow" in page
    assert '<td>late</td><td>1</td><td class="failed">1/2</td>' in page
    assert '<h2 class="failed">failed: Produce#1 orders-0 late</h2>' in page
    assert "--case &#39;Produce#1 orders-0 late&#39; -- pytest &#39;a&lt;b&#39;" in page
    assert "<td>5</td><td>failure</td><td>shop &lt;Produce&gt; v9</td>" in page
    assert "Heartbeat#1 late" not in page
