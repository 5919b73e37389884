"""Expressions of Spark SQL, computed by the local engine."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.lab.spark.local.parser import parse
from kafkalite.lab.spark.local.session import LocalSession


@pytest.fixture(scope="module")
def session() -> LocalSession:
    return LocalSession()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 - 4 % 3", 6),
        ("-(1 + 2)", -3),
        ("-1", -1),
        ("not 1 = 2 and 2 >= 1 or false", True),
        ("1 <> 2 and 1 != 2 and 1 <= 1 and 3 > 2 and 2 < 3", True),
        ("null <=> null", True),
        ("null <=> 1", False),
        ("1 is distinct from null", True),
        ("null = 1", None),
        ("null is null and 1 is not null", True),
        ("2 between 1 and 3 and 5 not in (1, 2) and 1 in (1)", True),
        ("case when false then 1 when true then 2 else 3 end", 2),
        ("case when false then 1 end", None),
        ("if(true, 'yes', 'no')", "yes"),
        (r"'it\'s'", "it's"),
        ("'topic' rlike '^t.*c$'", True),
        ("concat('a', cast(5 as string))", "a5"),
        ("concat('a', null)", None),
        ("1.5 + 1", 2.5),
        ("named_struct('a', 1, 'b', 'x').b", "x"),
        ("get(array(1, 2), 1)", 2),
        ("get(array(1, 2), 2)", None),
        ("transform(array(1, 2), x -> x + 1)", [2, 3]),
        ("transform(array(1), x -> transform(array(2), y -> x + y))", [[3]]),
        ("filter(array(1, 2, 3), x -> x > 1)", [2, 3]),
        ("exists(array(1, 2), x -> x = 2)", True),
        ("exists(array(1, 2), x -> x = 3)", False),
        ("flatten(transform(array(1), x -> array(struct(x as a)))).a", [1]),
        ("array_except(array('a', 'b', 'a'), array('b'))", ["a"]),
        ("size(array())", 0),
        ("nullif(0, 0)", None),
        ("greatest(null, 1, 2) - least(null, 1, 2)", 1),
        ("substring_index('host:9092', ':', -1)", "9092"),
        ("left('host:9092', greatest(length('host:9092') - 5, 0))", "host"),
    ],
)
def test_expression_has_the_value_as_in_spark(session: LocalSession, text: str, value: Any) -> None:  # noqa: ANN401 - any type of SQL
    row = session.range(1).select(parse(text).alias("value")).collect()[0]
    assert row["value"] == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("count(distinct id % 3)", 3),
        ("max(id) filter (where id < 5)", 4),
        ("max_by(id, -id)", 0),
        ("count_if(id > 7)", 2),
        ("bool_or(id = 9)", True),
        ("sum(id)", 45),
    ],
)
def test_aggregate_has_the_value_as_in_spark(session: LocalSession, text: str, value: Any) -> None:  # noqa: ANN401
    row = session.range(10).agg(parse(text).alias("value")).collect()[0]
    assert row["value"] == value


@pytest.mark.parametrize(
    "text", ["", "1 +", "case when", "(1", "1 2", "a.", "$", "unknown_name(1)"]
)
def test_text_that_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        parse(text)
