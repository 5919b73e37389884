"""PrincipalMapper: the rules that map distinguished names to principals.

The rules of `ssl.principal.mapping.rules` are those of Kafka's SslPrincipalMapper:
`RULE:PATTERN/REPLACEMENT/[LU]` and `DEFAULT`, separated by commas.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_RULE = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_RULES = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARTS = re.compile(_RULE)
_REFERENCE = re.compile(r"\\(.)|\$(\d+)|\$\{(\w+)\}", re.DOTALL)


class NoMatchingRuleError(ValueError):
    """No rule applies to a name; the text is one line."""


class _Rule(NamedTuple):
    """One rule; without a pattern it returns the name itself."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the mapped name, None if the rule does not apply."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = self.pattern.sub(self._expand, name)
        if self.case == "L":
            return mapped.lower()
        return mapped.upper() if self.case == "U" else mapped

    def _expand(self, match: re.Match[str]) -> str:
        """Return the replacement of a match, with Java's references to groups."""

        def group_or_text(reference: re.Match[str]) -> str:
            escaped, number, name = reference.groups()
            if escaped is not None:
                return escaped
            if name is not None:
                return match[name] or ""
            # As in Java, $12 is group 1 followed by "2" if there are fewer than 12 groups.
            for length in range(len(number), 0, -1):
                group = int(number[:length])
                if group <= len(match.groups()):
                    return (match[group] or "") + number[length:]
            return reference[0]

        return _REFERENCE.sub(group_or_text, self.replacement)


class PrincipalMapper:
    """The rules of one listener."""

    __slots__ = ("_rules",)

    def __init__(self, text: str) -> None:
        """Parse rules; raises ValueError, with one line, for an invalid one."""
        self._rules: list[_Rule] = []
        for match in _RULES.finditer(text.strip()):
            rule = match[1]
            parts = _PARTS.match(rule)
            if parts is None or parts.end() != len(rule):
                rest = rule if parts is None else rule[parts.end() :]
                raise ValueError(f"Invalid rule: `{rule}`, unmatched substring: `{rest}`")
            if parts[1] is not None:
                self._rules.append(_Rule(None))
            elif parts[2] is not None:
                self._rules.append(_Rule(_compile(parts[2]), parts[4], parts[6]))

    def name_of(self, distinguished_name: str) -> str:
        """Return the name by the first rule that applies; raises NoMatchingRuleError."""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoMatchingRuleError(
            f"no rule of ssl.principal.mapping.rules applies to {distinguished_name}"
        )


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"Invalid rule: pattern `{pattern}`: {error}") from error
