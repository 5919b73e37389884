"""Pages and parts of pages that are generated from the code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.architecture.source import ROOT
from tests.reference.admin_scoreboard import admin_scoreboard_page
from tests.reference.apis import apis_page
from tests.reference.cli import cli_page
from tests.reference.configurations import configurations_page
from tests.reference.control_api import control_api_page, openapi_text
from tests.reference.error_texts import error_texts_page
from tests.reference.images import images_page
from tests.reference.known_bugs import known_bugs_page
from tests.reference.man_page import man_page
from tests.reference.page_parts import PARTS
from tests.reference.python_api import python_api_page
from tests.reference.record_tags import record_tags_page
from tests.reference.scenario_schema import scenario_schema_text
from tests.reference.tools_scoreboard import tools_scoreboard_page
from tests.reference.vendor_profiles import vendor_profiles_page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DIRECTORY = ROOT / "docs" / "reference"
MAN_PAGE = "docs/man/kafkalite.1"
SCENARIO_SCHEMA = "scenario.schema.json"


def _audit_tables_page() -> str:
    # Imported here: it needs pyspark.
    from tests.reference.audit_tables import audit_tables_page  # noqa: PLC0415

    return audit_tables_page()


PAGES: Mapping[str, Callable[[], str]] = {
    "admin-scoreboard": admin_scoreboard_page,
    "apis": apis_page,
    "audit-tables": _audit_tables_page,
    "cli": cli_page,
    "configurations": configurations_page,
    "control-api": control_api_page,
    "error-texts": error_texts_page,
    "images": images_page,
    "known-bugs": known_bugs_page,
    "python-api": python_api_page,
    "record-tags": record_tags_page,
    "tools-scoreboard": tools_scoreboard_page,
    "vendor-profiles": vendor_profiles_page,
}


def write() -> None:
    """Write all pages whose libraries are installed, and the generated parts of other pages."""
    DIRECTORY.mkdir(exist_ok=True)
    for name, generate in PAGES.items():
        try:
            text = generate()
        except ModuleNotFoundError as error:
            print(f"{name}: needs {error.name}")  # noqa: T201 - the output of a program
            continue
        (DIRECTORY / f"{name}.md").write_text(text, encoding="utf-8")
    (DIRECTORY / "openapi.json").write_text(openapi_text(), encoding="utf-8")
    (DIRECTORY / SCENARIO_SCHEMA).write_text(scenario_schema_text(), encoding="utf-8")
    (ROOT / MAN_PAGE).parent.mkdir(parents=True, exist_ok=True)
    (ROOT / MAN_PAGE).write_text(man_page(), encoding="utf-8")
    for path, update_part in PARTS.items():
        page = ROOT / path
        page.write_text(update_part(page.read_text(encoding="utf-8")), encoding="utf-8")
