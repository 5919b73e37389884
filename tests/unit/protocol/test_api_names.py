"""Names of APIs, also of those that are not served."""

from __future__ import annotations

import pytest

from kafkalite.apis.table import TABLE
from kafkalite.protocol._generated.codecs.index import APIS
from kafkalite.protocol.api_names import (
    APIS_WITHOUT_SPEC,
    known_api_name,
    not_served_message,
    unknown_name_message,
)


def test_a_served_api_has_the_name_of_its_row() -> None:
    assert {key: known_api_name(key) for key in TABLE} == {
        key: row.name for key, row in TABLE.items()
    }


def test_apis_without_a_spec_are_not_served() -> None:
    assert APIS_WITHOUT_SPEC.keys().isdisjoint(APIS)


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (29, "DescribeAcls (API key 29) is not served"),
        (56, "AlterPartition (API key 56) is not served"),
        (999, "unknown API key 999 is not served"),
        (-1, "unknown API key -1 is not served"),
    ],
)
def test_message_about_an_unserved_api_has_its_name_or_key(key: int, sentence: str) -> None:
    assert not_served_message(key) == sentence


def test_an_unknown_name_has_a_similar_name() -> None:
    assert unknown_name_message("Prodce") == "unknown API 'Prodce'; did you mean Produce?"
    assert unknown_name_message("Cough") == "unknown API 'Cough'"
