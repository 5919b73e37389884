"""JAAS files of Java: sections with login modules, as settings of listeners and as users."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.security.sasl.jaas import (
    JaasError,
    JaasTokens,
    LoginModule,
    parse_jaas,
    take_module,
)
from kafkalite.security.sasl.users import LOGIN_MODULES, User

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

_SUFFIX: Final = ".sasl.jaas.config"
_SERVER_SECTION: Final = "KafkaServer"
_LOGIN_CONFIG: Final = re.compile(r"-Djava\.security\.auth\.login\.config==?(\S+)")
_PROPERTY: Final = re.compile(r"\$\{(?!\{)[^}]*\}")


class MissingSectionError(JaasError):
    """A JAAS file without a section for a listener whose users nothing else has."""


def login_file(java_options: str) -> str | None:
    """Return the path of the JAAS file in options of Java, the last one; None without one."""
    paths: list[str] = _LOGIN_CONFIG.findall(java_options)
    return paths[-1].strip("\"'") if paths else None


def jaas_key(listener: str, mechanism: str) -> str:
    """Return the setting with the login module of a listener for a mechanism."""
    return f"listener.name.{listener.lower()}.{mechanism.lower()}{_SUFFIX}"


def login_settings(
    text: str, config: Mapping[str, str], mechanisms: Mapping[str, Collection[str]]
) -> dict[str, str]:
    """Return the settings of listeners that a file adds to those in `config`.

    `mechanisms` has the SASL mechanisms of each listener with SASL. As in Kafka's JaasContext, a
    listener has the modules of the section `NAME.KafkaServer`, else of `KafkaServer`, and a setting
    in `config` has precedence. Raises JaasError, also for a listener without any module.
    """
    sections = parse_sections(text)
    settings: dict[str, str] = {}
    for listener, enabled in mechanisms.items():
        modules = sections.get(f"{listener.lower()}.{_SERVER_SECTION}")
        modules = modules or sections.get(_SERVER_SECTION)
        if not modules and not _has_module(config, listener):
            raise MissingSectionError(
                f"there is no section {_SERVER_SECTION} {{ … }}; for the users of the listener "
                f"{listener}"
            )
        for module in modules or ():
            for mechanism in mechanisms_of(module):
                key = jaas_key(listener, mechanism)
                if mechanism in enabled and key not in config:
                    settings.setdefault(key, module_text(module))
    return settings


def _has_module(config: Mapping[str, str], listener: str) -> bool:
    prefix = f"listener.name.{listener.lower()}."
    return any(key.startswith(prefix) and key.endswith(_SUFFIX) for key in config)


def scram_users(
    config: Mapping[str, str], listener: str, mechanisms: Collection[str]
) -> Iterator[User]:
    """Yield the broker's own user of each SCRAM mechanism, with which nodes log in to others.

    Raises JaasError, which names the setting, for an invalid text.
    """
    for mechanism in mechanisms:
        key = jaas_key(listener, mechanism)
        if key not in config or not mechanism.startswith("SCRAM-"):
            continue
        try:
            options = parse_jaas(config[key]).options
        except JaasError as error:
            raise JaasError(f"{key}: {error}") from None
        if options.get("username") and options.get("password"):
            yield User(options["username"], options["password"], (mechanism,))


def parse_sections(text: str) -> Mapping[str, Sequence[LoginModule]]:
    """Return the login modules of a file by section, as ConfigFile in Java.

    Raises JaasError, with the line, if the file is invalid.
    """
    tokens = JaasTokens(text)
    try:
        return _sections(tokens)
    except JaasError as error:
        raise JaasError(f"line {tokens.line}: {error}") from None


def _sections(tokens: JaasTokens) -> Mapping[str, Sequence[LoginModule]]:
    sections: dict[str, list[LoginModule]] = {}
    while tokens.next is not None:
        name = tokens.take().removeprefix('"')
        if tokens.next != "{":
            raise JaasError("a section must begin with NAME {")
        tokens.take("{")
        if name in sections:
            raise JaasError(f"there are two sections {name}")
        sections[name] = list(_section_modules(tokens))
    return sections


def _section_modules(tokens: JaasTokens) -> Iterator[LoginModule]:
    """Take the modules of a section, and its end."""
    while tokens.next != "}":
        if tokens.next is None:
            raise JaasError("the last section does not end with };")
        module = take_module(tokens)
        for name, value in module.options.items():
            if _PROPERTY.search(value):
                raise JaasError(
                    f"the option {name} has a system property of Java, ${{…}}: write its value"
                )
        yield module
    tokens.take("}")
    if tokens.next != ";":
        raise JaasError("a section must end with };")
    tokens.take(";")


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
