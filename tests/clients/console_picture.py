"""Writes the pictures of the console in docs/images, or pictures of all its pages for a review.

`python -m tests.clients.console_picture` writes those of the documentation, and with the name of a
directory all pages: in both themes, on a screen and on a phone. Both need Chromium.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from tests.architecture.source import ROOT
from tests.clients.chromium import chromium
from tests.clients.console_scene import NAMES, console_scene, open_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.testing import Broker
    from tests.clients.chromium import Tab

IMAGES: Final = ROOT / "docs" / "images"
DOCUMENTED: Final = {
    "group": 1000,
    "overview": 900,
    "records": 520,
    "transaction": 760,
    "requests": 640,
}
"""The pages in the documentation, and the heights of their pictures in pixels."""
_WIDTH: Final = 1120
_PHONE_WIDTH: Final = 390
_MAX_HEIGHT: Final = 3_000
_STEP_S: Final = 2.5


def main(arguments: Sequence[str]) -> int:
    """Write the pictures."""
    with (
        TemporaryDirectory() as profile,
        console_scene(_STEP_S) as broker,
        chromium(Path(profile)) as browser,
    ):
        tab = browser.new_tab()
        open_page(tab, broker, "login")
        if arguments:
            directory = Path(arguments[0])
            directory.mkdir(parents=True, exist_ok=True)
            _all_pages(tab, broker, directory)
        else:
            for name, height in DOCUMENTED.items():
                tab.show_as(_WIDTH, height)
                open_page(tab, broker, name)
                _wait(tab)
                tab.picture(IMAGES / f"console-{name}.webp")
    return 0


def _all_pages(tab: Tab, broker: Broker, directory: Path) -> None:
    for name in NAMES:
        open_page(tab, broker, name)
        _wait(tab)
        for width in (_WIDTH, _PHONE_WIDTH):
            for is_dark in (False, True):
                tab.show_as(width, 800, is_dark=is_dark)
                height = tab.evaluate("document.documentElement.scrollHeight")
                tab.show_as(width, min(height, _MAX_HEIGHT), is_dark=is_dark)
                theme = "dark" if is_dark else "light"
                tab.picture(directory / f"{name}-{width}-{theme}.webp")


def _wait(tab: Tab) -> None:
    """Wait until a page that changes is live."""
    tab.wait("document.getElementById('live-state')?.textContent !== 'connecting'")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
