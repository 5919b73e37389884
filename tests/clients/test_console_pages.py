"""The pages of the console in a real browser: accessibility, the keyboard, widths and themes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.clients.console_scene import NAMES, console_scene, open_page
from tests.oracle.build_cache import build_once, run_build
from tests.oracle.requirements import program, required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.testing import Broker
    from tests.clients.chromium import Tab

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_AXE: Final = Path(__file__).parent / "axe"
_STEP_S: Final = 0.4
_PHONE: Final = (390, 844)
_LOOKS: Final = (((1120, 800), False), (_PHONE, True))
"""The size of the window, and whether the theme is dark."""
_MIN_PASSES: Final = 10
AXE: Final = """
axe.run(document, {resultTypes: ["violations"]}).then((found) => [
    found.passes.length,
    found.violations.filter((each) => ["serious", "critical"].includes(each.impact))
        .flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.html.slice(0, 200)}`)),
])
"""
"""Returns the number of rules that the page follows, and the elements with serious findings."""
FOCUSED: Final = """
[
    document.activeElement.textContent.trim() || document.activeElement.id,
    getComputedStyle(document.activeElement).outlineStyle !== "none",
]
"""
"""Returns the name of the element with the focus, and whether the focus is visible."""
REACHABLE: Final = """
[...document.querySelectorAll("a, button, input, select, summary, [tabindex='0']")]
    .filter((each) => each.checkVisibility())
    .map((each) => each.textContent.trim() || each.id)
"""
"""Returns the names of the elements that can have the focus, in their order."""
IS_LIVE: Final = "document.getElementById('live-state').textContent === 'live'"
SET_HIDDEN: Final = """
Object.defineProperty(document, "hidden", {value: %s, configurable: true});
document.dispatchEvent(new Event("visibilitychange"))
"""
ENDED_STREAMS: Final = """
performance.getEntriesByType("resource").filter((each) => each.name.includes("/changes")).length
"""


@pytest.fixture(scope="module")
def axe() -> str:
    """Return the program of axe-core from npm."""
    with required():
        npm = program("npm")
        sources = [_AXE / name for name in ("package.json", "package-lock.json")]

        def install(directory: Path) -> None:
            for source in sources:
                shutil.copy(source, directory)
            run_build([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], directory)

        packages = build_once("axe", sources, install) / "node_modules"
    return (packages / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def scene() -> Iterator[Broker]:
    with console_scene(_STEP_S) as broker:
        yield broker


def test_no_page_has_serious_findings_of_axe(tab: Tab, scene: Broker, axe: str) -> None:
    found: dict[str, list[str]] = {}
    for name in NAMES:
        open_page(tab, scene, name)
        tab.evaluate("document.getElementById('pause')?.click()")  # an update replaces elements
        tab.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
        tab.evaluate(axe)
        for (width, height), is_dark in _LOOKS:
            tab.show_as(width, height, is_dark=is_dark)
            passes, findings = tab.evaluate(AXE)
            assert passes > _MIN_PASSES, name
            if findings:
                found[f"{name}, {width}, {'dark' if is_dark else 'light'}"] = findings
            excess = tab.evaluate("document.documentElement.scrollWidth") - width
            assert excess <= 0, (name, width, excess)
    assert found == {}
    # The pages `login` and `error` have the status 401 and 404.
    assert {each for each in tab.errors() if "status of 40" not in each} == set()


def test_the_keyboard_reaches_everything_in_the_order_of_the_page(tab: Tab, scene: Broker) -> None:
    open_page(tab, scene, "groups")
    tab.press("Tab")
    assert tab.evaluate(f"[...{FOCUSED}, document.activeElement.offsetLeft]") == [
        "Skip to the content", True, 8,
    ]  # fmt: skip
    tab.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"
    open_page(tab, scene, "groups")
    expected = tab.evaluate(REACHABLE)
    for name in expected:
        tab.press("Tab")
        assert tab.evaluate(FOCUSED) == [name, True]
    tab.evaluate("document.getElementById('q').focus()")
    for key in ("s", "h", "Enter"):
        tab.press(key)
    tab.wait("location.search.includes('q=sh') && document.readyState === 'complete'")
    assert "1\u20131 of 1" in tab.text()


def test_preferences_of_the_system_are_followed(tab: Tab, scene: Broker) -> None:
    open_page(tab, scene, "groups")
    badge = "getComputedStyle(document.querySelector('td .badge')).borderTopStyle"
    motion = "getComputedStyle(document.documentElement).scrollBehavior"
    assert tab.evaluate(f"[{badge}, {motion}]") == ["none", "smooth"]
    tab.prefer("forced-colors", "active")
    assert tab.evaluate(badge) == "solid"
    tab.prefer("prefers-reduced-motion", "reduce")
    assert tab.evaluate(motion) == "auto"


def test_a_page_that_is_not_visible_has_no_stream(tab: Tab, scene: Broker) -> None:
    open_page(tab, scene, "topics")
    tab.wait(IS_LIVE)
    tab.evaluate(SET_HIDDEN % "true")
    tab.wait(f"{ENDED_STREAMS} === 1")
    scene.create_topic("late")
    assert "late" not in tab.text()
    tab.evaluate(SET_HIDDEN % "false")
    tab.wait(IS_LIVE)
    tab.wait_for_text("late")
    assert tab.evaluate(ENDED_STREAMS) == 1
    assert tab.errors() == []
