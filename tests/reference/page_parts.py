"""Generated parts of pages that are otherwise written by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkalite.apis.table import TABLE
from kafkalite.config.unused_keys import NO_EFFECT
from kafkalite.protocol.api_keys import ApiKey
from tests.reference.markdown import codes, sentence, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BETWEEN_BROKERS = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
}
"""APIs of Kafka 4.3 that clients do not use."""

_API_COUNT = re.compile(r"(\| Client-visible APIs, of 72 in Kafka 4\.3 \| )\d+(?= \|)")
_NO_EFFECT_TABLE = re.compile(
    r"(<!-- no-effect-table -->\n).*?(?=<!-- /no-effect-table -->)", re.DOTALL
)


def update_api_count(text: str) -> str:
    """Return the README with the number of served APIs that clients see."""
    served = sum(key not in _BETWEEN_BROKERS for key in TABLE)
    return _replace(_API_COUNT, text, str(served))


def update_no_effect_table(text: str) -> str:
    """Return the page of defaults with the table of configurations without effect."""
    rows = [(sentence(reason), codes(keys.split())) for reason, keys in NO_EFFECT.items()]
    return _replace(_NO_EFFECT_TABLE, text, table(("Reason", "Settings"), rows) + "\n")


def _replace(part: re.Pattern[str], text: str, new: str) -> str:
    """Replace the part of `text` after the pattern's group; raises ValueError without one."""
    replaced, number = part.subn(lambda found: found[1] + new, text)
    if number != 1:
        raise ValueError(f"{part.pattern!r} occurs {number} times")
    return replaced


PARTS: Mapping[str, Callable[[str], str]] = {
    "README.md": update_api_count,
    "docs/explanation/defaults.md": update_no_effect_table,
}
"""Path → the function that returns the page's text with the current generated part."""
