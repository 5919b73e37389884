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
    r"""\s+ | //[^\n]* | /\*.*?\*/ | (?P<quoted>"(?:[^"\\\n]|\\.)*") | (?P<symbol>[;=])
    | (?P<word>[^\s;="]+)""",
    re.VERBOSE | re.DOTALL,
)
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
    return list(_modules(list(_tokens(text))))


def _tokens(text: str) -> Iterator[str]:
    """Yield words and symbols; a quoted text begins with a quotation mark."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError("the JAAS config has a text without closing quotation mark")
        position = match.end()
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


def _modules(tokens: list[str]) -> Iterator[LoginModule]:
    position = 0

    def take(expected: str) -> str:
        nonlocal position
        if position >= len(tokens):
            raise JaasError("JAAS config entry not terminated by semi-colon")
        token = tokens[position]
        position += 1
        if token in {";", "="} and token != expected:
            raise JaasError(f"the JAAS config has {token!r} where {expected or 'a name'} must be")
        return token

    while position < len(tokens):
        class_name = take("").removeprefix('"')
        if take("").lower() not in CONTROL_FLAGS:
            raise JaasError("Invalid login module control flag in the JAAS config")
        options: dict[str, str] = {}
        while (name := take(";")) != ";":
            if take("=") != "=":
                raise JaasError("Value not specified for a key in the JAAS config")
            options[name.removeprefix('"')] = take("").removeprefix('"')
        yield LoginModule(class_name, options)
