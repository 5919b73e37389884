"""JAAS files of Java: sections with login modules, as texts for `sasl.jaas.config`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.security.sasl.jaas import LoginModule, parse_modules
from kafkalite.security.sasl.users import LOGIN_MODULES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SECTION: Final = re.compile(
    r"""(?P<name>[\w.-]+)\s*\{(?P<body>(?:"(?:[^"\\]|\\.)*"|[^"{}])*)\}\s*;""", re.DOTALL
)
_LOGIN_CONFIG: Final = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")


def login_file(java_options: str) -> str | None:
    """Return the path of the JAAS file in options of Java; None without one."""
    match = _LOGIN_CONFIG.search(java_options)
    return None if match is None else match[1].strip("\"'")


def parse_sections(text: str) -> Mapping[str, Sequence[LoginModule]]:
    """Return the login modules of a file by section; raises JaasError if one is invalid."""
    return {match["name"]: parse_modules(match["body"]) for match in _SECTION.finditer(text)}


def mechanisms_of(module: LoginModule) -> list[str]:
    """Return the SASL mechanisms that a login module serves, none if it is unknown."""
    return [name for name, class_name in LOGIN_MODULES.items() if class_name == module.class_name]


def module_text(module: LoginModule) -> str:
    """Return a login module as a value of `sasl.jaas.config`."""
    options = "".join(f" {name}={_quoted(value)}" for name, value in module.options.items())
    return f"{module.class_name} required{options};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
