"""Parser of the expressions of Spark SQL that the audits contain."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from kafkalite.lab.spark.local import functions as f
from kafkalite.lab.spark.local.expressions import (
    Column,
    case,
    literal,
    template,
)

_TOKEN: Final = re.compile(
    r"\s+|(?P<string>'(?:[^'\\]|\\.)*')|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<symbol><=>|->|<=|>=|!=|<>|[-+*/%=<>(),.\[\]])"
)
_COMPARISONS: Final = {
    "=": "({} = {})",
    "!=": "({} <> {})",
    "<>": "({} <> {})",
    "<": "({} < {})",
    "<=": "({} <= {})",
    ">": "({} > {})",
    ">=": "({} >= {})",
    "<=>": "({} is not distinct from {})",
    "rlike": "regexp_matches({}, {})",
}
_MAX_CACHED: Final = 4_096


@lru_cache(_MAX_CACHED)
def parse(text: str) -> Column:
    """Return an expression; raises ValueError if it is not one."""
    parser = _Parser(text)
    parsed = parser.expression()
    if parser.token is not None:
        raise ValueError(f"{text!r}: unexpected {parser.token!r}")
    return parsed


class _Parser:
    """Reads tokens from left to right, with one method per level of precedence."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        end = 0
        while end < len(text):
            match = _TOKEN.match(text, end)
            if match is None:
                raise ValueError(f"{text!r}: unexpected {text[end]!r}")
            if match.lastgroup is not None:
                self._tokens.append(match[0])
            end = match.end()
        self._position = 0

    @property
    def token(self) -> str | None:
        """The next token; keywords in lower case."""
        return self._peek(0)

    def _peek(self, distance: int) -> str | None:
        position = self._position + distance
        if position >= len(self._tokens):
            return None
        token = self._tokens[position]
        return token if token.startswith("'") else token.lower()

    def _take(self) -> str:
        if self.token is None:
            raise ValueError(f"{self._text!r}: incomplete")
        self._position += 1
        return self._tokens[self._position - 1]

    def _accept(self, *tokens: str) -> bool:
        if tuple(self._peek(distance) for distance in range(len(tokens))) != tokens:
            return False
        self._position += len(tokens)
        return True

    def _expect(self, *tokens: str) -> None:
        if not self._accept(*tokens):
            raise ValueError(f"{self._text!r}: {self.token!r} in place of {' '.join(tokens)!r}")

    def expression(self) -> Column:
        """Read an expression of any precedence."""
        parsed = self._conjunction()
        while self._accept("or"):
            parsed = parsed | self._conjunction()
        return parsed

    def _conjunction(self) -> Column:
        parsed = self._negation()
        while self._accept("and"):
            parsed = parsed & self._negation()
        return parsed

    def _negation(self) -> Column:
        return ~self._negation() if self._accept("not") else self._predicate()

    def _predicate(self) -> Column:
        parsed = self._sum()
        while True:
            if self.token in _COMPARISONS:
                pattern = _COMPARISONS[self._take().lower()]
                parsed = template(pattern, parsed, self._sum(), kind=pa.bool_())
            elif self._accept("is", "not", "null"):
                parsed = parsed.isNotNull()
            elif self._accept("is", "null"):
                parsed = parsed.isNull()
            elif self._accept("is", "distinct", "from"):
                parsed = ~parsed.eqNullSafe(self._sum())
            elif self._accept("between"):
                low = self._sum()
                self._expect("and")
                parsed = (parsed >= low) & (parsed <= self._sum())
            elif self._accept("in", "("):
                parsed = parsed.isin(*self._arguments())
            elif self._accept("not", "in", "("):
                parsed = ~parsed.isin(*self._arguments())
            else:
                return parsed

    def _sum(self) -> Column:
        parsed = self._product()
        while self.token in {"+", "-"}:
            parsed = parsed + self._product() if self._take() == "+" else parsed - self._product()
        return parsed

    def _product(self) -> Column:
        parsed = self._sign()
        while self.token in {"*", "/", "%"}:
            operator, right = self._take(), self._sign()
            if operator == "*":
                parsed = parsed * right
            else:
                parsed = parsed / right if operator == "/" else parsed % right
        return parsed

    def _sign(self) -> Column:
        if not self._accept("-"):
            return self._postfix()
        if (self.token or "").isdecimal():
            return literal(-int(self._take()))
        return -self._postfix()

    def _postfix(self) -> Column:
        parsed = self._primary()
        while self._accept("."):
            parsed = parsed.getField(self._take())
        return parsed

    def _primary(self) -> Column:
        word = self.token or ""
        if word.startswith("'"):
            return literal(re.sub(r"\\(.)", r"\1", self._take()[1:-1]))
        if word[:1].isdecimal():
            self._take()
            return literal(float(word) if "." in word else int(word))
        if word in _CONSTANTS:
            self._take()
            return literal(_CONSTANTS[word])
        if word == "case":
            return self._case()
        if not self._accept("("):
            return self._call() if self._peek(1) == "(" else self._path()
        parsed = self.expression()
        self._expect(")")
        return parsed

    def _path(self) -> Column:
        names = [self._take()]
        while self._accept("."):
            names.append(self._take())
        return f.col(".".join(names))

    def _case(self) -> Column:
        self._expect("case")
        cases, default = [], None
        while self._accept("when"):
            condition = self.expression()
            self._expect("then")
            cases.append((condition, self.expression()))
        if self._accept("else"):
            default = self.expression()
        self._expect("end")
        return case(cases, default)

    def _call(self) -> Column:
        name = self._take().lower()
        self._expect("(")
        if name == "cast":
            value = self.expression()
            self._expect("as")
            return value.cast(self._type())
        if name == "count" and self._accept("distinct"):
            name = "count_distinct"
        arguments = self._arguments()
        if name == "if":
            condition, then, otherwise = arguments
            parsed = case([(condition, then)], otherwise)
        else:
            parsed = f.SQL_FUNCTIONS[name](*arguments)
        if self._accept("filter", "(", "where"):
            condition = self.expression()
            self._expect(")")
            parsed = f.filtered(parsed, condition)
        return parsed

    def _arguments(self) -> list[Any]:
        """Read arguments up to a closing parenthesis; a lambda is a (parameter, body) pair."""
        arguments: list[Any] = []
        while not self._accept(")"):
            if arguments:
                self._expect(",")
            if self._peek(1) == "->":
                parameter = self._take()
                self._expect("->")
                arguments.append((parameter, self.expression()))
                continue
            argument = self.expression()
            arguments.append(argument.alias(self._take()) if self._accept("as") else argument)
        return arguments

    def _type(self) -> str:
        """Read the name of a type up to the closing parenthesis of a cast."""
        words = []
        while not self._accept(")"):
            words.append(self._take())
        return " ".join(words)


_CONSTANTS: Final = {"true": True, "false": False, "null": None}
__all__ = ["parse"]
