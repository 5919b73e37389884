"""PrincipalMapper: the rules that map distinguished names to principals.

The rules of `ssl.principal.mapping.rules` are those of Kafka's SslPrincipalMapper:
`RULE:PATTERN/REPLACEMENT/[LU]` and `DEFAULT`, separated by commas.
"""

from __future__ import annotations

import re

from kafkalite.ports.named_tuples import NamedTuple

_RULE = (
    r"(?P<default>DEFAULT)|RULE:(?P<pattern>(\\.|[^\\/])*)/(?P<replacement>(\\.|[^\\/])*)/"
    r"(?P<case>[LU]?).*?|(.*?)"
)
_RULES = re.compile(rf"\s*(?P<rule>{_RULE})\s*(,\s*|$)")
_PARTS = re.compile(_RULE)
_REFERENCE = re.compile(r"\\(?P<escaped>.)|\$(?P<number>[0-9]+)|\$\{(?P<name>\w+)\}|\$", re.DOTALL)
"""An escaped character, a group by number or by name, or the sign of neither."""


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
            escaped, number, name = reference.group("escaped", "number", "name")
            if escaped is not None:
                return escaped
            if name is not None:
                return match[name] or ""
            length = _group_number_length(number, match.re.groups)
            return (match[int(number[:length])] or "") + number[length:]

        return _REFERENCE.sub(group_or_text, self.replacement)


class PrincipalMapper:
    """The rules of one listener."""

    __slots__ = ("_rules",)

    def __init__(self, text: str) -> None:
        """Parse rules; raises ValueError, with one line, for an invalid one."""
        self._rules: list[_Rule] = []
        for match in _RULES.finditer(text.strip()):
            rule = match["rule"]
            parts = _PARTS.match(rule)
            if parts is None or parts.end() != len(rule):
                rest = rule if parts is None else rule[parts.end() :]
                raise ValueError(f"Invalid rule: `{rule}`, unmatched substring: `{rest}`")
            if parts["default"] is not None:
                self._rules.append(_Rule(None))
            elif parts["pattern"] is not None:
                pattern, replacement = _compile(parts["pattern"]), parts["replacement"]
                _check_references(pattern, replacement)
                self._rules.append(_Rule(pattern, replacement, parts["case"]))

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


def _check_references(pattern: re.Pattern[str], replacement: str) -> None:
    """Raise ValueError if a replacement refers to a group that its pattern does not have."""
    for reference in _REFERENCE.finditer(replacement):
        escaped, number, name = reference.group("escaped", "number", "name")
        if escaped is not None:
            continue
        if number is not None:
            is_valid = _group_number_length(number, pattern.groups) > 0
        else:
            is_valid = name in pattern.groupindex
        if not is_valid:
            raise ValueError(
                f"Invalid rule: pattern `{pattern.pattern}` has no group for `{reference[0]}` in "
                f"`{replacement}`"
            )


def _group_number_length(digits: str, group_count: int) -> int:
    """Return how many digits are the number of a group; 0 without such a group.

    As in Java, $12 is group 1 followed by "2" if there are fewer than 12 groups.
    """
    longest = min(len(digits), len(str(group_count)))
    lengths = range(longest, 0, -1)
    return next((length for length in lengths if int(digits[:length]) <= group_count), 0)
