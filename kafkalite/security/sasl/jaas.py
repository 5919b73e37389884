"""JAAS: login modules and their options, from a value of `sasl.jaas.config`.

The format is that of Java: the class of a module, a control flag, options as NAME=VALUE, and a
semicolon. Texts are quoted; a backslash in a quoted text has the same effect as in Java.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?(?:\*/|\Z) | (?P<quoted>"(?:[^"\\\n]|\\.)*") | (?P<symbol>[;={}])
    | (?P<word>[^\s;={}"]+)""",
    re.VERBOSE | re.DOTALL,
)
_SYMBOLS: Final = frozenset(";={}")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class JaasError(ValueError):
    """An invalid JAAS text; the message does not contain the text, which may have passwords."""


class LoginModule(NamedTuple):
    """A login module: its class, and its options by name."""

    class_name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        """Return a text without the values, which may be passwords."""
        return f"LoginModule({self.class_name}, {', '.join(self.options)})"


def parse_jaas(text: str) -> LoginModule:
    """Return the only login module of a text; raises JaasError if it is invalid."""
    modules = parse_modules(text)
    if not modules:
        raise JaasError("JAAS config property does not contain any login modules")
    if len(modules) > 1:
        raise JaasError(
            f"JAAS config property contains {len(modules)} login modules, should be 1 module"
        )
    return modules[0]


def parse_modules(text: str) -> list[LoginModule]:
    """Return all login modules of a text; raises JaasError if it is invalid."""
    return list(_modules(JaasTokens(text)))


class JaasTokens:
    """The tokens of a text: words, quoted texts and symbols, without comments."""

    __slots__ = ("_next", "_position", "_text", "_tokens")

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._tokens = self._split()
        self._next = next(self._tokens, None)

    @property
    def next(self) -> str | None:
        """The next token, None at the end; a quoted text begins with a quotation mark."""
        return self._next

    @property
    def line(self) -> int:
        """The number of the line that has the end of the next token, from 1 on."""
        return self._text.count("\n", 0, self._position) + 1

    def take(self, symbol: str = "") -> str:
        """Return the next token, which is the symbol, a word or a quoted text; raises JaasError."""
        token = self._next
        if token is None:
            raise JaasError("JAAS config entry not terminated by semi-colon")
        if token in _SYMBOLS and token != symbol:
            raise JaasError(f"the JAAS config has {token!r} where {symbol or 'a name'} must be")
        self._next = next(self._tokens, None)
        return token

    def _split(self) -> Iterator[str]:
        while self._position < len(self._text):
            match = _TOKEN.match(self._text, self._position)
            if match is None:
                raise JaasError("the JAAS config has a text without closing quotation mark")
            self._position = match.end()
            if match["quoted"] is not None:
                yield '"' + _unescape(match["quoted"][1:-1])
            elif match["symbol"] or match["word"]:
                yield match[0]


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped[0] in "01234567":
            return chr(int(escaped, 8))
        return _ESCAPES.get(escaped, escaped)

    return re.sub(r"\\([0-3]?[0-7]{1,2}|.)", replace, text, flags=re.DOTALL)


def _modules(tokens: JaasTokens) -> Iterator[LoginModule]:
    while tokens.next is not None:
        yield take_module(tokens)


def take_module(tokens: JaasTokens) -> LoginModule:
    """Take the next login module; raises JaasError if it is invalid."""
    class_name = tokens.take().removeprefix('"')
    if tokens.take().removeprefix('"').lower() not in CONTROL_FLAGS:
        raise JaasError("Invalid login module control flag in the JAAS config")
    options: dict[str, str] = {}
    while (name := tokens.take(";")) != ";":
        if tokens.take("=") != "=":
            raise JaasError("Value not specified for a key in the JAAS config")
        options[name.removeprefix('"')] = tokens.take().removeprefix('"')
    return LoginModule(class_name, options)
