"""Each difference from Kafka on the page has a test, or a reason why there is none."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.architecture.source import ROOT
from tests.docs.known_differences import DIFFERENCES, Difference

PAGE = ROOT / "docs" / "explanation" / "differences.md"


def items(section: str = "") -> list[str]:
    """Return the items of all lists on the page or of one section, each as one line."""
    text = PAGE.read_text(encoding="utf-8")
    if section:
        text = re.split(r"^## ", text.partition(f"\n## {section}\n")[2], flags=re.MULTILINE)[0]
    lists = re.findall(r"^- (.*(?:\n  .*)*)", text, re.MULTILINE)
    return [re.sub(r"\s+", " ", item) for item in lists]


@cache
def functions_of(path: str) -> frozenset[str]:
    """Return the names of the functions of a module of tests."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_each_item_of_the_page_has_a_row() -> None:
    page = items()
    for item, difference in zip(page, DIFFERENCES, strict=False):
        assert item.startswith(difference.item)
    assert len(page) == len(DIFFERENCES)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.item)
def test_a_row_has_existing_tests_or_a_reason(difference: Difference) -> None:
    assert bool(difference.tests) is not bool(difference.reason)
    for name in difference.tests:
        path, _, function = name.partition("::")
        assert function in functions_of(path)


def test_each_difference_of_groups_and_transactions_has_a_test() -> None:
    section = items("Groups and transactions")
    rows = [row for row in DIFFERENCES if any(item.startswith(row.item) for item in section)]
    assert len(rows) == len(section) > 0
    assert [row.item for row in rows if not row.tests] == []


def test_each_known_difference_that_is_tested_is_on_the_page() -> None:
    path = "tests/conformance/test_known_differences.py"
    tested = {name for name in functions_of(path) if name.startswith("test_")}
    listed = {
        name.partition("::")[2]
        for difference in DIFFERENCES
        for name in difference.tests
        if name.startswith(path)
    }
    assert tested == listed | {
        "test_an_earlier_difference_is_gone",
        "test_a_principal_without_acls_is_refused",
    }
