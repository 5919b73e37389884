"""The pytest plugin: fixtures that run a broker, and the options of these brokers.

pytest loads it in every environment that has kafkalite, even if no test uses it. It therefore
imports the broker in the fixtures only.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from traceback import format_tb
from typing import TYPE_CHECKING, Any, Final, NoReturn
from weakref import WeakKeyDictionary

import pytest

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from kafkalite.config.options import Option
    from kafkalite.control.commands.clusters import ClusterStatus
    from kafkalite.testing.broker import Broker

_PREFIX = "--kafkalite-"
_SWEEP = "--kafkalite-sweep"
_SWEEP_PLUGIN = "kafkalite.lab.sweep.pytest_plugin"
"""The name of a package above this one, which pytest loads if the option is given."""
_REPEATABLE = ("topic", "config", "node-config", "user", "oidc-client")
"""Options whose values together are one argument."""
_SESSION_ARGUMENTS = ("topics", "faults", "reset")
"""Arguments of the marker that a running broker can have."""
_FIXTURES = ("kafkalite", "kafkalite_oidc", "kafkalite_session")
"""The fixtures whose brokers are checked at the end of a test."""
_LOGGED_REQUESTS = 1_000
"""The number of requests that a broker of a fixture logs, for the report of a failed test."""
_AFTER_ALL = 2**31 - 1
"""A number above those of all requests and events."""
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
    group.addoption(
        _SWEEP,
        action="store_true",
        help="run each test with the fixture kafkalite once per case, with one failure in each run",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker, and prepare what is known about brokers during the run."""
    config.addinivalue_line(
        "markers",
        "kafkalite_sweep(only=(), skip=('stalled',), seed=1, limit=None): cases of "
        "--kafkalite-sweep for a test; patterns as for kafkalite sweep, and at most `limit` cases",
    )
    if config.getoption(_SWEEP):
        config.pluginmanager.import_plugin(_SWEEP_PLUGIN)
    config.addinivalue_line(
        "markers",
        "kafkalite(**arguments): arguments of Broker for the fixtures kafkalite and "
        "kafkalite_oidc, and `faults`, a list of the arguments of `faults.add`. For "
        "kafkalite_session, `topics` and `faults`, and reset=False to keep its data.",
    )
    config.stash[_SEEN] = WeakKeyDictionary()


@pytest.fixture
def kafkalite(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Yield a new broker for this test."""
    with _running_broker(request.config, _marked(request.node)) as broker:
        yield broker


@pytest.fixture
def kafkalite_oidc(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Yield a new broker for this test, whose clients authenticate with tokens of its provider."""
    with _running_broker(request.config, {"oidc": True, **_marked(request.node)}) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafkalite_session(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """Yield the broker of the whole test run, which is reset before each test that uses it."""
    first = pytestconfig.stash[_FIRST_SESSION_ARGUMENTS]
    without_topics = {name: first[name] for name in first if name != "topics"}
    with _running_broker(pytestconfig, without_topics) as broker:
        _add_topics(broker, first)
        pytestconfig.stash[_SESSION_BROKER] = broker
        yield broker
        del pytestconfig.stash[_SESSION_BROKER]


@pytest.fixture(scope="session")
def kafkalite_cluster(pytestconfig: pytest.Config) -> Iterator[ClusterStatus]:
    """Yield a cluster of this worker, in the process of the broker at `KAFKALITE_CONTROL`.

    Without that variable, the worker has a broker of its own.
    """
    from kafkalite.control.commands.clusters import ClusterStatus  # noqa: PLC0415 - see above
    from kafkalite.testing.shared_cluster import (  # noqa: PLC0415 - see above
        cluster_name,
        shared_address,
        shared_cluster,
    )

    address = shared_address()
    if address is not None:
        with shared_cluster(address) as cluster:
            yield cluster
        return
    with _running_broker(pytestconfig, {"control": True}) as broker:
        name, servers = cluster_name(), broker.bootstrap_servers
        yield ClusterStatus(name, servers, broker.control_url, None, 0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Reset the broker of the run before a test that uses it, unless its marker has reset=False."""
    fixtures = getattr(item, "fixturenames", ())
    if "kafkalite_session" not in fixtures:
        return
    marked = _marked(item)
    own = {name: marked[name] for name in marked if name in _SESSION_ARGUMENTS}
    others = [name for name in marked if name not in _SESSION_ARGUMENTS]
    if others and not {"kafkalite", "kafkalite_oidc"} & set(fixtures):
        pytest.fail(
            f"pytest.mark.kafkalite: {others[0]} cannot be set for kafkalite_session, which all "
            "tests share; use the fixture kafkalite",
            pytrace=False,
        )
    broker = item.config.stash.get(_SESSION_BROKER, None)
    if broker is None:
        item.config.stash[_FIRST_SESSION_ARGUMENTS] = own
    elif own.get("reset", True):
        try:
            broker.reset()
        except RuntimeError:  # a test stopped it
            broker.start()
        _add_topics(broker, own)
        _add_faults(broker, own)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the brokers of the fixtures of a failed test saw to its report."""
    report = yield
    del call
    if report.when == "call" and report.passed and item.get_closest_marker("xfail") is None:
        brokers = [broker for name, broker in _brokers_of(item) if name in _FIXTURES]
        problems = [each for broker in brokers for each in _problems_of(broker)]
        if problems:
            report.outcome = "failed"
            report.longrepr = "\n".join(problems)
    if report.failed and report.when != "teardown":
        for name, broker in _brokers_of(item):
            text = _report_of(broker, item.config.stash[_SEEN].get(broker, _Seen()))
            if text is not None:
                report.sections.append((f"What the broker of {name} saw", text))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Remember what the brokers of a test have seen, which reports of later tests leave out."""
    for _, broker in _brokers_of(item):
        seen = _seen_by(broker)
        if seen is not None:
            item.config.stash[_SEEN][broker] = seen
    return (yield)


class _Seen(NamedTuple):
    """The numbers of the last request and of the last event of a broker."""

    request: int = 0
    entry: int = 0


_SEEN: Final = pytest.StashKey[WeakKeyDictionary[Any, _Seen]]()
"""What each broker had seen at the end of the last test that used it."""
_SESSION_BROKER: Final = pytest.StashKey[Any]()
_FIRST_SESSION_ARGUMENTS: Final = pytest.StashKey[dict[str, Any]]()
"""The arguments of the marker of the first test that uses the broker of the run."""


def _brokers_of(item: pytest.Item) -> list[tuple[str, Broker]]:
    """Return the brokers that are values of fixtures of a test, by the names of the fixtures."""
    module = sys.modules.get("kafkalite.testing.broker")  # see above
    fixtures: Mapping[str, object] = getattr(item, "funcargs", {})
    if module is None:
        return []
    found = {
        id(value): (name, value)
        for name, value in fixtures.items()
        if isinstance(value, module.Broker)
    }
    return list(found.values())


def _problems_of(broker: Broker) -> list[str]:
    """Return what a passed test has missed, which the end of the broker's block would raise."""
    problems = []
    with suppress(RuntimeError):  # it does not run
        for check in (broker.faults.assert_all_fired, broker.check_scenario):
            try:
                check()
            except AssertionError as error:
                problems.append(str(error))
    for hook in broker._hooks:  # noqa: SLF001 - its errors belong to this test
        try:
            hook.raise_error()
        except BaseException as error:  # noqa: BLE001 - pytest.fail raises no Exception
            problems += [
                f"a callback of on_request failed: {error!r}",
                *format_tb(error.__traceback__),
            ]
    return problems


def _report_of(broker: Broker, seen: _Seen) -> str | None:
    try:
        report = broker.report(after_request=seen.request, after_entry=seen.entry)
    except Exception as error:  # noqa: BLE001 - the failure of the test is more important
        return None if isinstance(error, RuntimeError) else f"no report: {error!r}"
    return str(report)


def _seen_by(broker: Broker) -> _Seen | None:
    try:
        # The numbers are needed, and not what is before them, which takes long to describe.
        report = broker.report(after_request=_AFTER_ALL, after_entry=_AFTER_ALL)
    except RuntimeError:  # it does not run
        return None
    return _Seen(report.last_request, report.last_entry)


def _marked(node: pytest.Item) -> dict[str, Any]:
    """Return the arguments of the markers of a test; those of the closest marker win."""
    arguments: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers("kafkalite"))):
        if marker.args:
            pytest.fail("pytest.mark.kafkalite takes named arguments only", pytrace=False)
        arguments |= marker.kwargs
    return arguments


@contextmanager
def _running_broker(config: pytest.Config, marked: Mapping[str, Any]) -> Iterator[Broker]:
    """Run a broker with options of pytest and arguments of markers, which have precedence.

    If it cannot start, report that in one line.
    """
    from kafkalite.config.definitions import ConfigError  # noqa: PLC0415 - see above
    from kafkalite.testing.broker import Broker  # noqa: PLC0415

    own = {name: marked[name] for name in marked if name not in ("faults", "reset")}
    try:
        arguments = {"request_log": _LOGGED_REQUESTS, **broker_arguments(config), **own}
        if arguments.get("data_directory") is None:
            arguments.setdefault("storage", "memory")
        _check_names(arguments, Broker)
        broker = Broker(**arguments)
        broker.start()
    except (pytest.UsageError, ConfigError, TypeError, ValueError) as error:
        reason = f"the broker of this fixture cannot start: {error}"
        raise pytest.fail.Exception(reason, pytrace=False) from None
    try:
        _add_faults(broker, marked)
        yield broker
    finally:
        broker.stop()


def _check_names(arguments: Mapping[str, Any], kind: type[Broker]) -> None:
    """Raise ValueError for an unknown name, with similar ones."""
    from inspect import signature  # noqa: PLC0415 - see above

    from kafkalite.ports.similar_names import similar_names_hint  # noqa: PLC0415 - see above

    known = dict.fromkeys((*signature(kind).parameters, *_SESSION_ARGUMENTS))
    for name in arguments:
        if name not in known:
            raise ValueError(f"Broker has no argument {name!r}{similar_names_hint(name, known)}")


def _add_faults(broker: Broker, marked: Mapping[str, Any]) -> None:
    faults = marked.get("faults", ())
    if not isinstance(faults, list | tuple) or not all(isinstance(each, dict) for each in faults):
        example = [{"api": "Produce", "disconnect": True}]
        _fail(ValueError(f"faults is a list such as {example!r}, not {faults!r}"))
    try:
        for each in faults:
            broker.faults.add(**each)
    except (TypeError, ValueError) as error:
        _fail(error)


def _add_topics(broker: Broker, marked: Mapping[str, Any]) -> None:
    from kafkalite.testing.broker import partition_counts  # noqa: PLC0415 - see above

    try:
        for name, partitions in partition_counts(marked.get("topics") or {}).items():
            broker.create_topic(name, partitions)
    except (TypeError, ValueError) as error:
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    raise pytest.fail.Exception(f"pytest.mark.kafkalite: {error}", pytrace=False) from None


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
