"""The page of the tables that `kafkalite audit` writes; importing this needs the extra `spark`."""

from __future__ import annotations

from kafkalite.cli.audit import COUNTS, DURATIONS
from kafkalite.lab.spark.audits import AUDITS
from kafkalite.lab.spark.table_descriptions import describe_tables
from tests.reference.markdown import code, codes, page, sentence, table

_INTRODUCTION = """\
`kafkalite audit` writes these tables as Parquet. [Audit captures](../how-to/audit.md)
describes the command; its report shows the results as charts, so read that first. `state/` has the
tables from which the audits are computed. The output directory also has a file `tables.md`: this
page for one run, with the typed fields of the APIs in the capture."""


def audit_tables_page() -> str:
    """Return the page of audits and their tables."""
    _, _, tables = describe_tables([]).partition("\n")
    return page(
        "Audit tables",
        _INTRODUCTION,
        "## Audits",
        table(
            ("Audit", "Question", "Tables"),
            [
                (
                    code(name),
                    sentence(audit.summary),
                    codes(column.name for column in audit.tables),
                )
                for name, audit in AUDITS.items()
            ],
        ),
        "## Settings",
        table(
            ("Option", "Default", "Meaning"),
            [
                (code(setting.flag), setting.default, sentence(setting.help))
                for setting in (*DURATIONS, *COUNTS)
            ],
        ),
        "## Columns",
        tables.strip().replace("\n## ", "\n### "),
    )
