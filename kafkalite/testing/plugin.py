"""The pytest plugin: fixtures that run a broker, and the options of these brokers.

pytest loads it in every environment that has kafkalite, even if no test uses it. It therefore
imports the broker in the fixtures only.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.config.options import Option
    from kafkalite.testing.broker import Broker

_PREFIX = "--kafkalite-"
_REPEATABLE = ("topic", "config", "node-config", "user", "oidc-client")
"""Options whose values together are one argument."""
_FREE_PORT = "0"
"""The address of a server of a fixture, if its option is given without one."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option for each argument of the brokers, such as `--kafkalite-as-version`."""
    group = parser.getgroup("kafkalite", "brokers of the kafkalite fixtures")
    for option in _options():
        arguments: dict[str, Any] = {"help": option.help, "dest": _dest(option)}
        if option.metavar is not None:
            arguments["metavar"] = option.metavar
        if option.choices:
            arguments["choices"] = option.choices
        if option.implied is not None:
            arguments |= {"nargs": "?", "const": _FREE_PORT}
        if option.name in _REPEATABLE:
            arguments["action"] = "append"
        group.addoption(f"{_PREFIX}{option.name}", **arguments)


@pytest.fixture
def kafkalite(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """Yield a new broker for this test."""
    with _running_broker(pytestconfig) as broker:
        yield broker


@pytest.fixture
def kafkalite_oidc(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """Yield a new broker for this test, whose clients authenticate with tokens of its provider."""
    with _running_broker(pytestconfig, oidc=True) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafkalite_session(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """Yield the broker of the whole test run; tests that share it use topics of their own."""
    with _running_broker(pytestconfig) as broker:
        yield broker


@contextmanager
def _running_broker(config: pytest.Config, **defaults: object) -> Iterator[Broker]:
    """Run a broker with the options of pytest; if it cannot start, report that in one line."""
    from kafkalite.config.definitions import ConfigError  # noqa: PLC0415 - see above
    from kafkalite.testing.broker import Broker  # noqa: PLC0415

    try:
        broker = Broker(**{**defaults, **broker_arguments(config)})
        broker.start()
    except (pytest.UsageError, ConfigError, ValueError) as error:
        pytest.fail(f"the broker of this fixture cannot start: {error}", pytrace=False)
    try:
        yield broker
    finally:
        broker.stop()


def broker_arguments(config: pytest.Config) -> dict[str, Any]:
    """Return the arguments of `Broker` that were given as options of pytest.

    Raises pytest.UsageError if a value is invalid.
    """
    from kafkalite.identity.clients import parse_clients  # noqa: PLC0415 - as above
    from kafkalite.server.settings import (  # noqa: PLC0415
        SettingsError,
        parse_config,
        parse_node_config,
        parse_topics,
        parse_users,
    )

    parse_values = (parse_topics, parse_config, parse_node_config, parse_users, parse_clients)
    parsers: dict[str, Any] = dict(zip(_REPEATABLE, parse_values, strict=True))
    arguments: dict[str, Any] = {}
    for option in _options():
        value = config.getoption(_dest(option))
        if value is None or option.keyword is None:
            continue
        try:
            if option.name in parsers:
                value = parsers[option.name](value)
            elif option.parse is not None:
                value = option.parse(value)
        except SettingsError as error:
            raise pytest.UsageError(f"{error}".replace("--", _PREFIX, 1)) from error
        except ValueError as error:
            raise pytest.UsageError(f"{_PREFIX}{option.name}: {error}") from error
        arguments[option.keyword.name] = value
    return arguments


def _options() -> list[Option]:
    from kafkalite.config.options import OPTIONS  # noqa: PLC0415 - see above

    return [each for each in OPTIONS if each.keyword is not None and each.keyword.is_for_fixtures]


def _dest(option: Option) -> str:
    return f"kafkalite_{option.dest}"
