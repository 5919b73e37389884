"""The start of the broker of a container: from its environment to `kafkalite serve`."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import sys
from typing import TYPE_CHECKING, NoReturn

from kafkalite.cli.streams import printable, try_print
from kafkalite.config.options import ADVERTISE, OPTIONS, TOPIC
from kafkalite.docker.files import ImageFiles
from kafkalite.docker.listeners import ADVERTISED, LISTENERS, check_reachable
from kafkalite.docker.own_variables import (
    find_misspelt_variables,
    option_values,
    own_arguments,
)
from kafkalite.docker.properties import VariableError
from kafkalite.docker.translation import Container, Translation, translate
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.server.addresses import DEFAULT_PORT, Address, AddressError
from kafkalite.server.settings import Settings, parse_config

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.docker.topics import TopicToCreate
    from kafkalite.server.broker import Broker

USAGE_STATUS = 2

_NOT_WRITABLE = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))


class Plan(NamedTuple):
    """The start that the environment of a container describes."""

    translation: Translation
    arguments: tuple[str, ...]
    """The arguments of `kafkalite serve`."""
    topics: tuple[str, ...]
    """The names of the topics that the start creates."""

    @property
    def values(self) -> dict[str, list[str]]:
        """The values of the arguments, by the name of the option."""
        values: dict[str, list[str]] = {"listen": [], "advertise": [], "config": []}
        for argument in self.arguments:
            flag, _, value = argument.partition("=")
            values.setdefault(flag.removeprefix("--"), []).append(value)
        return values

    @property
    def settings(self) -> Settings:
        """The listeners and configurations of the broker; raises SettingsError."""
        values = self.values
        return Settings(
            listen=values["listen"],
            advertise=values["advertise"],
            config=parse_config(values["config"]),
        )


def plan_from(
    environment: Mapping[str, str], hostname: str, properties: Mapping[str, str] | None = None
) -> Plan:
    """Return the start that an environment describes; raises VariableError if it is invalid.

    `properties` are those of a properties file; None for those of a mounted file.
    """
    files = ImageFiles.of(environment)
    translation = translate(
        Container(
            environment,
            hostname,
            files.read_text,
            files.is_mounted,
            files.mounted_properties() if properties is None else properties,
            files.formatted_users(),
            files.path,
        )
    )
    translation = _with_formatted_id(translation, files.formatted_cluster_id(), environment)
    _check_own_addresses(environment, hostname)
    own = own_arguments(
        environment,
        hostname,
        has_listeners=translation.has_listeners or translation.is_controller_only,
    )
    names = [text.rpartition(":")[0] for text in option_values(TOPIC, environment)]
    names += [topic.name for topic in translation.topics]
    return Plan(translation, (*_arguments(translation), *own), tuple(names))


def _with_formatted_id(
    translation: Translation, cluster_id: str | None, environment: Mapping[str, str]
) -> Translation:
    """Return a translation with the id of `kafka-storage format`; raises VariableError."""
    if cluster_id is None or environment.get("KAFKALITE_CLUSTER_ID", "").strip():
        return translation
    if translation.cluster_id not in (None, cluster_id):
        raise VariableError(
            f"the variables have the cluster id {translation.cluster_id}, but kafka-storage format "
            f"has set {cluster_id}: use one of them"
        )
    return translation._replace(cluster_id=cluster_id)


def _check_own_addresses(environment: Mapping[str, str], hostname: str) -> None:
    """Raise VariableError if no client can connect to an own advertised address."""
    for text in option_values(ADVERTISE, environment):
        try:
            address = Address.parse(text)
        except AddressError:
            continue  # reported with the other options
        # Port 0 is that of the listener.
        port = address.port or DEFAULT_PORT
        name = ADVERTISE.variable.name if ADVERTISE.variable else ADVERTISE.flag
        check_reachable(address._replace(port=port), str(name), "it", hostname)


def serve_arguments(environment: Mapping[str, str], hostname: str) -> list[str]:
    """Return the arguments of `kafkalite serve`; raises VariableError."""
    return list(plan_from(environment, hostname).arguments)


def _arguments(translation: Translation) -> list[str]:
    """Return the arguments for a translation; own variables come later, and take precedence."""
    arguments = [f"--config={key}={value}" for key, value in translation.config.items()]
    arguments += [f"--user={user.option}" for user in translation.users]
    single = {
        "--cluster-id": translation.cluster_id,
        "--data-dir": translation.data_directory,
        "--log-level": translation.log_level,
    }
    return [*arguments, *(f"{flag}={value}" for flag, value in single.items() if value)]


def print_line(text: str) -> None:
    """Print one line for the log of the container."""
    print(f"kafkalite: {printable(text)}", file=sys.stderr, flush=True)  # noqa: T201 - see above


def run(
    environment: Mapping[str, str],
    hostname: str,
    options: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> int:
    """Run the broker that an environment describes, with more options of `kafkalite serve`.

    `properties` are those of `plan_from`. Returns an exit status if the broker cannot start.
    """
    for name, suggestion in find_misspelt_variables(environment).items():
        print_line(f"unknown variable {name}: did you mean {suggestion}?")
    try:
        plan = plan_from(environment, hostname, properties)
    except VariableError as error:
        print_line(str(error))
        return USAGE_STATUS
    for notice in plan.translation.notices:
        print_line(notice)
    membership = plan.translation.membership
    if membership is not None:
        from kafkalite.docker.member_start import run_member  # noqa: PLC0415 - of several containers

        return run_member(plan, membership, hostname, options)
    if plan.translation.is_controller_only:
        return _wait_for_signal()
    return serve(plan, options, prepare=topic_creator(plan.translation.topics))


def _wait_for_signal() -> int:
    """Wait until the container is stopped: a broker needs no controller in another container."""
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try_print(
        "no broker: the brokers need no controller; this container waits until it is stopped\n"
    )
    signal.sigwait(signals)
    return 0


def serve(
    plan: Plan,
    options: Sequence[str],
    *,
    adapt: Callable[[Settings], Settings] | None = None,
    prepare: Callable[[Broker], None] | None = None,
    on_ready: Callable[[Broker], None] | None = None,
) -> int:
    """Run a broker until a signal stops it; return an exit status if it cannot start.

    `adapt` and `prepare` are those of `run_broker`. `on_ready` is called when clients are accepted.
    """
    from kafkalite.cli import process  # noqa: PLC0415 - a health check does not need it
    from kafkalite.cli.parsing import CommandParser  # noqa: PLC0415 - as above
    from kafkalite.cli.serve import add_options, run_broker  # noqa: PLC0415 - as above
    from kafkalite.docker.ready_lines import ready_lines  # noqa: PLC0415 - as above

    class VariableParser(CommandParser):
        """Prints an error with the variable that has the invalid value."""

        def error(self, message: str) -> NoReturn:
            print_line(with_own_variables(message, options))
            raise SystemExit(USAGE_STATUS)

    parser = VariableParser(prog="kafkalite serve", allow_abbrev=False)
    add_options(parser)
    arguments = parser.parse_args([*plan.arguments, *options])

    def report_ready(broker: Broker) -> str:
        if on_ready is not None:
            on_ready(broker)
        return ready_lines(broker)

    try:
        run_broker(arguments, adapt=adapt, prepare=prepare, more_ready_lines=report_ready)
    except process.START_ERRORS as error:
        text = with_variables(str(error), plan.translation.variables)
        print_line(with_own_variables(text, options) + _advice(error, plan.translation.variables))
        return USAGE_STATUS


def topic_creator(topics: Sequence[TopicToCreate]) -> Callable[[Broker], None]:
    """Return a function that creates the topics that do not exist in a broker that starts."""

    def create(broker: Broker) -> None:
        from kafkalite.metadata.creation import NewTopic  # noqa: PLC0415 - only with topics

        assert broker.cluster is not None
        metadata = broker.cluster.metadata
        missing = [
            NewTopic(
                name=topic.name,
                partitions=topic.partitions,
                replication_factor=topic.replicas,
                configs=topic.settings,
            )
            for topic in topics
            if topic.name not in metadata.image.topics
        ]
        for creation in metadata.create_topics(missing) if missing else ():
            if creation.error is not None:
                from kafkalite.cluster.cluster import TopicError  # noqa: PLC0415 - rarely used

                reason = creation.error.message or creation.error.code.name
                raise TopicError(f"KAFKA_CREATE_TOPICS: cannot create {creation.name}: {reason}")

    return create


def with_variables(text: str, variables: Mapping[str, str]) -> str:
    """Return an error with the variables that set the properties it names."""
    named = [
        name
        for key, name in variables.items()
        if re.search(rf"(?<![\w.]){re.escape(key)}(?![\w-]|\.\w)", text)
    ]
    return f"{text} (set by {', '.join(named)})" if named else text


def with_own_variables(text: str, options: Sequence[str]) -> str:
    """Return an error with variables in place of options, except those of the command line."""
    given = {option.partition("=")[0] for option in options}
    for option in OPTIONS:
        if option.variable and option.flag and option.flag not in given:
            flag = rf"(?:\bargument )?{re.escape(option.flag)}(?![\w-])"
            text = re.sub(rf"{flag} (?=auto\b|\w+://)", f"{option.variable.name}=", text)
            text = re.sub(flag, option.variable.name, text)
    return text


def _advice(error: BaseException, variables: Mapping[str, str]) -> str:
    """Return which variable to change, or how to make the directory of the data writable.

    Returns nothing for errors that name their variable.
    """
    from kafkalite.server.broker_directory import BrokerDirectoryError  # noqa: PLC0415 - rarely used

    cause = error.__cause__
    if not isinstance(cause, OSError):
        return ""
    if isinstance(error, AddressError):
        named = variables.get(LISTENERS) or variables.get(ADVERTISED)
        is_elsewhere = cause.errno == errno.EADDRNOTAVAIL or isinstance(cause, socket.gaierror)
        hint = "; write 0.0.0.0 for all addresses of the container" if is_elsewhere else ""
        return f" (set by {named}{hint})" if named else ""
    if not isinstance(error, BrokerDirectoryError) or cause.errno not in _NOT_WRITABLE:
        return ""
    return (
        f"; the user {os.getuid()} of the container must be able to write there: change the owner "
        "of the volume, or set KAFKALITE_DATA_DIR or KAFKA_LOG_DIRS to another directory"
    )
