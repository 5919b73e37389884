"""The page of error texts that programs compare."""

from __future__ import annotations

from kafkalite.protocol.error_texts import ErrorText
from tests.reference.markdown import code, codes, page, table

_INTRODUCTION = """\
Programs are known to compare these error messages, so they are those of Kafka, word for word. The
second column names the programs: classes of Kafka, most of them tests. A name in braces stands for
a value; a second pair of braces belongs to the text. All other messages are kafkalite's own. These
messages cannot have further details, so the output of
[`kafkalite explain`](../how-to/explain.md) has the full reason."""


def error_texts_page() -> str:
    """Return the page of error texts."""
    return page(
        "Error texts",
        _INTRODUCTION,
        table(
            ("Text", "Compared by"),
            [(code(_shown(text.template)), codes(text.compared_by)) for text in ErrorText],
        ),
    )


def _shown(template: str) -> str:
    """Return a template with the braces of the text, which templates double."""
    return template.replace("{{", "{").replace("}}", "}")
