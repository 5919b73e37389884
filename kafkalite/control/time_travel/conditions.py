"""Conditions about the state of a cluster, such as `committed(shop, orders, 0) < 5`.

    condition:  alternative ("or" alternative)*
    alternative: term ("and" term)*
    term:       "not" term | "(" condition ")" | value OPERATOR value
    value:      FUNCTION "(" argument ("," argument)* ")" | NUMBER | "none" | WORD | 'TEXT'

Operators are `==`, `!=`, `<`, `<=`, `>` and `>=`. Names of groups and topics need quotation marks
if they have other characters than letters, digits, `.`, `_` and `-`. A comparison with a value that
does not exist is false, except `== none` and `!=`.
"""

from __future__ import annotations

import operator
import re
from functools import reduce
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.gateway.error_messages import printable
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.similar_names import similar_names_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Value: TypeAlias = int | str | None
ReadValue: TypeAlias = "Callable[[Call], Value]"

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<operator>==|!=|<=|>=|<|>)|(?P<mark>[(),])|(?P<number>-?[0-9]{1,19}(?![\w.-]))"
    r"|'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\"|(?P<word>[\w.-]+))"
)
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MAX_DEPTH: Final = 50
_MAX_LENGTH: Final = 10_000
PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "committed": ("GROUP", "TOPIC", "PARTITION"),
    "members": ("GROUP",),
    "epoch": ("GROUP",),
    "state": ("GROUP",),
    "transaction": ("TRANSACTIONAL-ID",),
    "producer_epoch": ("TRANSACTIONAL-ID",),
    "share_start": ("GROUP", "TOPIC", "PARTITION"),
    "end_offset": ("TOPIC", "PARTITION"),
    "partitions": ("TOPIC",),
    "leader": ("TOPIC", "PARTITION"),
    "leader_epoch": ("TOPIC", "PARTITION"),
}
"""The functions of conditions, with their parameters."""
_TEXT_FUNCTIONS: Final = frozenset(("state", "transaction"))
"""The functions whose values are texts, and not numbers."""


class Call(NamedTuple):
    """A function with its arguments."""

    function: str
    names: tuple[str, ...]
    partition: int = -1

    def __str__(self) -> str:
        """Return the call as in a condition, with escaped control characters."""
        indexes = () if self.partition < 0 else (f"{self.partition}",)
        names = map(printable, self.names)
        return f"{self.function}({', '.join((*names, *indexes))})"


class Comparison(NamedTuple):
    """Two values and an operator."""

    left: Call | Value
    symbol: str
    right: Call | Value

    def is_true(self, read: ReadValue) -> bool:
        """Return whether the comparison is true."""
        left, right = (
            read(each) if isinstance(each, Call) else each for each in (self.left, self.right)
        )
        if self.symbol in {"==", "!="}:
            return _OPERATORS[self.symbol](left, right)
        if left is None or right is None or isinstance(left, str) is not isinstance(right, str):
            return False
        return _OPERATORS[self.symbol](left, right)


class Junction(NamedTuple):
    """Conditions of which all, one or none must be true."""

    word: str
    """`and`, `or` or `not`."""
    parts: tuple[Condition, ...]

    def is_true(self, read: ReadValue) -> bool:
        """Return whether the condition is true."""
        if self.word == "not":
            return not self.parts[0].is_true(read)
        results = (each.is_true(read) for each in self.parts)
        return all(results) if self.word == "and" else any(results)


Condition: TypeAlias = Comparison | Junction


def truths(condition: Condition, values: Sequence[int]) -> bytes:
    """Return for each value of the only call in a condition whether it is true, 1 or 0."""
    if isinstance(condition, Comparison):
        if None in {condition.left, condition.right}:
            is_true = condition.is_true(lambda _: 0)
            return bytes((is_true,)) * len(values)
        left, right = (
            values if isinstance(each, Call) else repeat(each)
            for each in (condition.left, condition.right)
        )
        return bytes(map(_OPERATORS[condition.symbol], left, right))
    parts = [int.from_bytes(truths(each, values)) for each in condition.parts]
    if condition.word == "not":
        result = parts[0] ^ int.from_bytes(b"\1" * len(values))
    else:
        result = reduce(operator.and_ if condition.word == "and" else operator.or_, parts)
    return result.to_bytes(len(values))


def calls_of(condition: Condition) -> list[Call]:
    """Return the calls in a condition, each once, in its order."""
    if isinstance(condition, Junction):
        return list(dict.fromkeys(call for each in condition.parts for call in calls_of(each)))
    return [each for each in (condition.left, condition.right) if isinstance(each, Call)]


def parse_condition(text: str) -> Condition:
    """Return the condition of a text; raises TimeTravelError with the position of a mistake."""
    parser = _Parser(text)
    condition = parser.condition(0)
    if parser.kind:
        parser.fail("expected `and`, `or` or the end")
    if not calls_of(condition):
        raise TimeTravelError(f"the condition has no function; there are {', '.join(PARAMETERS)}")
    return condition


def _kind_of(value: Call | Value) -> type | None:
    """Return the type of a value; None for `none`."""
    if isinstance(value, Call):
        return str if value.function in _TEXT_FUNCTIONS else int
    return None if value is None else type(value)


def _described(value: Call | Value) -> str:
    kind = "the text" if _kind_of(value) is str else "the number"
    return f"{kind} {value if isinstance(value, Call) else repr(value)[:42]}"


class _Parser:
    """A recursive-descent parser, which knows one token at a time."""

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_LENGTH:
            raise TimeTravelError(f"the condition is longer than {_MAX_LENGTH} characters")
        self._text = text
        self._end = 0
        self._position = 0
        self.kind = ""
        """The kind of the present token; empty at the end."""
        self.token = ""
        self._advance()

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._end)
        rest = self._text[self._end :]
        self._position = self._end + len(rest) - len(rest.lstrip())
        if match is not None:
            assert match.lastgroup is not None
            self.kind, self.token, self._end = match.lastgroup, match[match.lastgroup], match.end()
        elif rest.strip():
            self.kind, self.token = "unknown", rest.strip()[:20]
        else:
            self.kind, self.token = "", ""

    def fail(self, expected: str) -> None:
        """Raise TimeTravelError at the present token."""
        found = f"not {self._text[self._position :][:20]!r}" if self.kind else "not the end"
        raise TimeTravelError(f"column {self._position + 1} of the condition: {expected}, {found}")

    def condition(self, depth: int) -> Condition:
        """Read a condition."""
        return self._junction("or", lambda: self._junction("and", lambda: self._term(depth)))

    def _junction(self, word: str, read: Callable[[], Condition]) -> Condition:
        parts = [read()]
        while self._is("word", word):
            self._advance()
            parts.append(read())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts))

    def _term(self, depth: int) -> Condition:
        if depth > _MAX_DEPTH:
            self.fail(f"at most {_MAX_DEPTH} nested parts")
        if self._is("word", "not"):
            self._advance()
            return Junction("not", (self._term(depth + 1),))
        if self._is("mark", "("):
            self._advance()
            condition = self.condition(depth + 1)
            self._take("mark", ")")
            return condition
        left = self._value()
        if self.kind != "operator":
            self.fail(f"expected one of {' '.join(_OPERATORS)}")
        symbol = self.token
        self._advance()
        position = self._position
        right = self._value()
        kinds = _kind_of(left), _kind_of(right)
        if None not in kinds and kinds[0] is not kinds[1]:
            raise TimeTravelError(
                f"column {position + 1} of the condition: {_described(left)} cannot be compared "
                f"with {_described(right)}"
            )
        return Comparison(left, symbol, right)

    def _is(self, kind: str, text: str) -> bool:
        return (self.kind, self.token) == (kind, text)

    def _take(self, kind: str, token: str) -> None:
        if not self._is(kind, token):
            self.fail(f"expected {token!r}")
        self._advance()

    def _value(self) -> Call | Value:
        kind, token, position = self.kind, self.token, self._position
        if kind == "number":
            self._advance()
            return int(token)
        if kind not in {"word", "single", "double"}:
            self.fail("expected a function, a number, a word or a text in quotation marks")
        if kind == "word" and token.lstrip("-.")[:1].isdigit():
            self.fail("expected an integer of at most 19 digits, or a text in quotation marks")
        self._advance()
        if kind == "word" and self._is("mark", "("):
            return self._call(token, position)
        return None if (kind, token) == ("word", "none") else token

    def _call(self, function: str, position: int) -> Call:
        parameters = PARAMETERS.get(function)
        if parameters is None:
            known = ", ".join(PARAMETERS)
            hint = similar_names_hint(function, PARAMETERS)
            raise TimeTravelError(
                f"column {position + 1} of the condition: there is no function "
                f"{function[:40]!r}{hint or f', but {known}'}"
            )
        values: list[str] = []
        for index, parameter in enumerate(parameters):
            self._take("mark", "," if index else "(")
            values.append(self._argument(function, parameters, parameter))
        if not self._is("mark", ")"):
            self.fail(f"expected ')' at the end of {function}({', '.join(parameters)})")
        self._advance()
        if parameters[-1] == "PARTITION":
            return Call(function, tuple(values[:-1]), int(values[-1]))
        return Call(function, tuple(values))

    def _argument(self, function: str, parameters: Sequence[str], parameter: str) -> str:
        token = self.token
        is_index = parameter == "PARTITION"
        kinds = {"number"} if is_index else {"word", "number", "single", "double"}
        if self.kind not in kinds or (is_index and not 0 <= int(token) < 2**31):
            self.fail(f"expected {parameter} of {function}({', '.join(parameters)})")
        self._advance()
        return token
