"""The start of a container that belongs to a cluster of several containers."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kafkalite.cli.streams import try_print
from kafkalite.config.options import OPTIONS
from kafkalite.config.security_protocols import (
    PROTOCOL_MAP_KEY,
    SecurityProtocol,
    parse_protocol_map,
)
from kafkalite.docker.cluster_messages import Registration, RequestedTopic
from kafkalite.docker.start import USAGE_STATUS, print_line, serve, with_own_variables
from kafkalite.server.addresses import Address, AddressError
from kafkalite.server.settings import SettingsError, parse_config, parse_topics, parse_users

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.docker.cluster_messages import Admission
    from kafkalite.docker.membership import Membership
    from kafkalite.docker.start import Plan
    from kafkalite.server.broker import Broker
    from kafkalite.server.settings import Settings

_OF_EACH = frozenset(
    ("advertise", "cluster-id", "config", "data-dir", "listen", "log-level", "topic", "user")
)
"""Options that each container of a cluster may have; others have an effect in the primary only."""


def run_member(plan: Plan, membership: Membership, hostname: str, options: Sequence[str]) -> int:
    """Run a container of a cluster until it is stopped.

    Returns the exit status of a primary, or of a container that cannot start; a relay exits.
    """
    plan = plan._replace(arguments=(*plan.arguments, *options))
    is_primary = membership.is_primary
    if is_primary is None:
        is_primary = is_own_address(membership.host)
    try:
        if is_primary:
            return _run_primary(plan, membership)
        _run_relay(plan, membership, hostname)
    except (AddressError, SettingsError) as error:
        print_line(with_own_variables(str(error), options))
        return USAGE_STATUS


def is_own_address(host: str) -> bool:
    """Return whether a host name is that of this container: only then can it be bound."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, number, _, address in found:
        try:
            with socket.socket(family, kind, number) as tested:
                tested.bind(address)
        except OSError:
            continue
        return True
    return False


def registration_of(plan: Plan, membership: Membership, hostname: str) -> Registration:
    """Return the registration of the node of a container; raises SettingsError."""
    translation, values = plan.translation, plan.values
    config = parse_config(values["config"])
    requested = [
        RequestedTopic(topic.name, topic.partitions, topic.replicas, topic.settings)
        for topic in translation.topics
    ]
    own = parse_topics(values.get("topic", ()))
    requested += [RequestedTopic(name, partitions) for name, partitions in own.items()]
    specs = () if translation.is_controller_only else plan.settings.listeners
    return Registration(
        node_id=membership.node_id,
        host=hostname,
        is_broker=not translation.is_controller_only,
        listen=tuple(f"{spec.name}://{spec.listen_address}" for spec in specs),
        advertise=tuple(
            f"{spec.name}://{spec.advertised_address(spec.listen_address.port, 0)}"
            for spec in specs
        ),
        config=config,
        users=tuple(values.get("user", ())),
        topics=tuple(requested),
        cluster_id=next(iter(values.get("cluster-id", ())[-1:]), None),
        as_version=next(iter(values.get("as-version", ())[-1:]), None),
    )


def _run_relay(plan: Plan, membership: Membership, hostname: str) -> NoReturn:
    from kafkalite.docker.ready_lines import ready_lines_of  # noqa: PLC0415 - not in the primary
    from kafkalite.docker.relay import Relay, RelayedListener, run_relay  # noqa: PLC0415 - as above

    for option in OPTIONS:
        if option.variable and option.name in plan.values and option.name not in _OF_EACH:
            print_line(
                f"{option.variable.name} has no effect here: set it in the container of the "
                f"primary, {membership.host}"
            )
    registration = registration_of(plan, membership, hostname)
    specs = () if plan.translation.is_controller_only else plan.settings.listeners
    kind = "node" if registration.is_broker else "controller"
    advertised = "".join(f" at {text}" for text in registration.advertise[:1])

    def report_ready(admission: Admission) -> None:
        for key in admission.without_effect:
            print_line(
                f"{plan.translation.variables.get(key, key)} has no effect here: the cluster has "
                f"the settings of its primary, {membership.host}"
            )
        try_print(
            f"kafkalite is ready: {kind} {membership.node_id}{advertised}, of the cluster "
            f"{admission.cluster_id} in the container {membership.host}\n"
        )
        now_ms = time.time_ns() // 1_000_000
        try_print(ready_lines_of(membership.node_id, admission.release, now_ms))

    addresses = [(spec.name, spec.listen_address) for spec in specs]
    addresses += [(each.listener or "", each) for each in plan.translation.controllers]
    listeners = [RelayedListener(name, address) for name, address in addresses]
    run_relay(Relay(membership, registration, listeners, print_line, report_ready))


def _run_primary(plan: Plan, membership: Membership) -> int:
    from kafkalite.docker.primary import Primary  # noqa: PLC0415 - not in a relay
    from kafkalite.server.listener import bind  # noqa: PLC0415 - as above

    bound = bind(_private_address(membership))
    own = registration_of(plan, membership, membership.host)
    first = own if own.is_broker else _wait_for_first(plan, membership, bound)
    if first is None:
        return 0

    controllers = [each for address in plan.translation.controllers for each in bind(address)]

    def adapt(settings: Settings) -> Settings:
        # Topics may need more nodes than the first one.
        adapted = settings._replace(topics={}, expected_brokers=membership.expected_nodes)
        adapted = adapted if first is own else _settings_of_first(first, adapted)
        return _with_controller(adapted, plan.translation.controllers, membership)

    primaries: list[Primary] = []

    def prepare(broker: Broker) -> None:
        primary = Primary(membership, broker, broker.log, own.topics)
        primary.stop_absent_nodes()
        primaries.append(primary)

    def on_ready(_: Broker) -> None:
        primaries[0].start(bound, controllers)
        print_line(f"other containers of the cluster join on port {membership.port}")

    return serve(plan, (), adapt=adapt, prepare=prepare, on_ready=on_ready)


def _with_controller(
    settings: Settings, controllers: Sequence[Address], membership: Membership
) -> Settings:
    """Return settings with the address of the controller, which is in the container of the primary.

    Clients of a controller with TLS are not served without a key store, which Kafka would need.
    """
    if not controllers or settings.controller_listen is not None:
        return settings
    name = controllers[0].listener or ""
    protocols = parse_protocol_map(settings.config.get(PROTOCOL_MAP_KEY, ""))
    own = SecurityProtocol.__members__.get(name, SecurityProtocol.PLAINTEXT)
    stores = ("ssl.keystore.", f"listener.name.{name.lower()}.ssl.keystore.")
    has_store = settings.tls is not None or any(key.startswith(stores) for key in settings.config)
    if protocols.get(name, own).uses_tls and not has_store:
        return settings
    advertised = Address(membership.host, controllers[0].port)
    return settings._replace(controller_advertise=f"{advertised}")


def _settings_of_first(first: Registration, settings: Settings) -> Settings:
    """Return the settings of a cluster whose primary is no broker: those of the first broker."""
    return settings._replace(
        listen=first.listen,
        advertise=first.advertise,
        config={**first.config, **settings.config},
        users=(*parse_users(first.users), *settings.users),
        as_version=settings.as_version or first.as_version,
        cluster_id=settings.cluster_id or first.cluster_id,
        is_relayed=True,
    )


def _wait_for_first(
    plan: Plan, membership: Membership, bound: Sequence[socket.socket]
) -> Registration | None:
    """Return the registration of the first broker; None if a signal arrives before."""
    from kafkalite.cli import process  # noqa: PLC0415 - not in a relay
    from kafkalite.docker.primary import FirstBroker  # noqa: PLC0415 - as above
    from kafkalite.server.logging import Log  # noqa: PLC0415 - as above

    values = plan.values
    log = Log()
    first = FirstBroker(
        membership,
        log,
        next(iter(values.get("cluster-id", ())[-1:]), None),
        stored_node_id("".join(values.get("data-dir", ())[-1:])),
    )
    try_print(
        f"the controller {membership.node_id} waits for the first broker, whose settings are those "
        "of the cluster\n"
    )
    return process.run_until_signalled(lambda stop: first.wait(bound, stop), log)


def stored_node_id(directory: str) -> int | None:
    """Return the first node of the cluster whose data a directory has; None if it has none."""
    from kafkalite.storage.data_directory import META_FILE  # noqa: PLC0415 - not in a relay

    try:
        lines = (Path(directory) / META_FILE).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return None
    ids = [line.partition("=")[2].strip() for line in lines if line.startswith("node.id=")]
    return int(ids[0]) if directory and ids and ids[0].isdecimal() else None


def _private_address(membership: Membership) -> Address:
    """Return the address for other containers: that of an IP address, otherwise all addresses."""
    try:
        socket.inet_pton(socket.AF_INET, membership.host)
    except OSError:
        return Address("0.0.0.0", membership.port)  # noqa: S104 - the container's own network
    return Address(membership.host, membership.port)
