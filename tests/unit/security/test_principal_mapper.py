"""Mapping rules of principals, with the examples of Kafka's documentation."""

from __future__ import annotations

import pytest

from kafkalite.security.principal_mapper import NoMatchingRuleError, PrincipalMapper

RULES = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme", "DUKE"),
        ("OU=none", "OU=none"),
    ],
)
def test_the_first_rule_that_applies_is_used(name: str, principal: str) -> None:
    assert PrincipalMapper(RULES).name_of(name) == principal


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", "CN=a", "CN=a"),
        (r"RULE:CN=(\w+)/\$$1/", "CN=a", "$a"),
        (r"RULE:CN=(\w+)/$12/", "CN=a", "a2"),
        (r"RULE:CN=(?P<name>\w+)/${name}!/", "CN=a", "a!"),
        (r"RULE:CN=(\w+)/$0/", "CN=a", "CN=a"),
        (r"RULE:CN=a\/b/x\/y/", "CN=a/b", "x/y"),
        (r"RULE:CN=(\w+),(O=(\w+))?.*/$1-$3/", "CN=a,C=b", "a-"),
        (r"RULE:.*/x/", "CN=a", "xx"),
        (" RULE:CN=b/b/ ,, DEFAULT ", "CN=a", "CN=a"),
    ],
)
def test_rules_have_the_syntax_of_java(rules: str, name: str, principal: str) -> None:
    assert PrincipalMapper(rules).name_of(name) == principal


@pytest.mark.parametrize("rules", ["RULE:CN=a/b/", ""])
def test_a_name_without_a_matching_rule_is_rejected(rules: str) -> None:
    with pytest.raises(NoMatchingRuleError, match="applies to CN=b"):
        PrincipalMapper(rules).name_of("CN=b")


@pytest.mark.parametrize(
    "rules",
    [
        "RULE:CN=(/x/",
        r"RULE:CN=(\w+)/$2/",
        r"RULE:CN=(\w+)/${name}/",
        r"RULE:CN=(\w+)/$x/",
        r"RULE:CN=(?P<name>\w+)/${other}$1/",
        r"RULE:CN=(\w+)/$1/, RULE:OU=(\w+)/$9999999999999999999999/",
    ],
)
def test_an_invalid_rule_is_rejected(rules: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        PrincipalMapper(rules)
