"""Broker: one emulated cluster of one or more nodes with listening sockets.

The order of a start: check the settings, bind the ports, read the data, bind the ports of nodes
that were added earlier, accept clients. The order of a stop: accept no clients, serve no requests,
resolve pending answers, send them, close connections, close the data.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.apis.releases import api_finder
from kafkalite.cluster.cluster import Cluster
from kafkalite.cluster.node import NodeState
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.config.tables.kafkalite import CLIENT_TELEMETRY
from kafkalite.config.unused_keys import keys_without_effect
from kafkalite.coordinator.contract import UnreadableLogError
from kafkalite.gateway.error_messages import printable
from kafkalite.gateway.gateway import Gateway
from kafkalite.gateway.inter_broker import InterBrokerCalls
from kafkalite.gateway.steps import StepOrder
from kafkalite.metadata.brokers import NoNodesError
from kafkalite.metadata.features import UnsupportedLevelError
from kafkalite.metadata.image import AddedNode, MetadataDelta
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.executors import ThreadExecutor
from kafkalite.ports.files import OsFiles
from kafkalite.ports.temporary import remove_abandoned
from kafkalite.security.listener_security import ListenerSecurity, ProposedValues
from kafkalite.server.addresses import Address
from kafkalite.server.admission import Admission
from kafkalite.server.broker_directory import BrokerDirectory, BrokerDirectoryError
from kafkalite.server.client_warnings import ClientWarnings
from kafkalite.server.connection import Connection
from kafkalite.server.late_loop import LateLoop
from kafkalite.server.listener import Listener, ListenerContext
from kafkalite.server.logging import DiskFailureLog, Level, Log, log_exchange, log_truncation
from kafkalite.server.maintenance import Maintenance
from kafkalite.server.memory_queue import MemoryQueue
from kafkalite.server.node_listeners import NodeListeners, registered_listeners
from kafkalite.server.recording import Recording
from kafkalite.server.scheduler import Scheduler
from kafkalite.server.settings import SettingsError
from kafkalite.storage.data_directory import BOOT_FILE, CLEAN_SHUTDOWN_FILE, RECOVERY_POINTS_FILE
from kafkalite.wire.frames import SHARED_BUFFER_BYTES, ReceiveBuffers
from kafkalite.wire.session import SessionSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from kafkalite.apis.authorization.step import AuthorizationStep
    from kafkalite.capture.recording.recorder import Recorder
    from kafkalite.cluster.node import Endpoint, Node
    from kafkalite.config.definitions import Value
    from kafkalite.config.rules import Rules
    from kafkalite.coordinator.event_history import EventHistory
    from kafkalite.gateway.exchanges import Exchange, Observer
    from kafkalite.gateway.faults import Faults
    from kafkalite.gateway.throttling import Throttling
    from kafkalite.identity.provider import IdentityProvider
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.ports.executors import Executor
    from kafkalite.ports.files import Files
    from kafkalite.security.authorizer import AuthorizerSettings
    from kafkalite.security.certificates import CertificateFiles
    from kafkalite.security.tls import TlsServer
    from kafkalite.server.addresses import ListenerSpec
    from kafkalite.server.generated_certificates import GeneratedCertificates
    from kafkalite.server.sasl_listener import SaslListener, SaslSettings
    from kafkalite.server.settings import Settings
    from kafkalite.server.token_validator import TokenValidator
    from kafkalite.storage.disk_health import DiskFailure


_METADATA_LOG_ADVICE = (
    f"restore the file from a copy, or delete {CLEAN_SHUTDOWN_FILE}, {RECOVERY_POINTS_FILE} and "
    f"{BOOT_FILE} in the data directory: the next start then truncates the metadata from this "
    "batch on, as Kafka does, and renames the directories of the lost topics"
)
"""Advice for the operator about a damaged metadata log."""

_REPLICATION_FACTOR_KEYS = {
    OFFSETS_TOPIC: "offsets.topic.replication.factor",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.replication.factor",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic.replication.factor",
}
"""Internal topic → key of its replication factor; the topic needs at least that many nodes."""

_ENDPOINT_NAME = "CONTROL"
"""The name of an endpoint in messages about its certificate, if no listener has one."""

_KEY_STORE_KEYS = ("ssl.keystore.location", "ssl.keystore.key")
"""Settings with a key; one of them is required without a listener that has a certificate."""

_ANSWER_ITERATIONS = 3
"""Iterations of the event loop in which the answers that a controlled shutdown ends are written."""

_SHUTDOWN_GRACE_S = 1.0
"""The time in which clients must read their last answers after a controlled shutdown."""

_DEFAULT_QUEUED_BYTES = 1024 * 1024 * 1024
"""Limit of the memory for large requests if `queued.max.request.bytes` is not positive."""


class ServedNode(NamedTuple):
    """One node's listeners, and the connections that they accepted.

    The listeners of a node for clients of the controller are separate: as in Kafka, their
    connections do not count against the limits of the others.
    """

    node: Node
    listeners: Sequence[Listener]
    admission: Admission

    def kill(self) -> None:
        """Accept no clients, and close all connections without answers, like a killed process."""
        for listener in self.listeners:
            listener.stop()
        self.admission.stop()
        for connection in self.admission:
            connection.abort()

    def stop_serving(self) -> None:
        """Serve no further requests; pending answers may still be sent."""
        self.admission.stop()
        for connection in self.admission:
            connection.stop_serving()

    async def shut_down(self) -> None:
        """Accept no clients and no requests; send the answers that are ready, then disconnect.

        Requests that still wait are not answered, as in Kafka.
        """
        for listener in self.listeners:
            listener.stop()
        self.stop_serving()
        # The answers of requests whose wait has ended are encoded in the next iterations.
        for _ in range(_ANSWER_ITERATIONS):
            await asyncio.sleep(0)
        await self.close(_SHUTDOWN_GRACE_S)

    async def close(self, grace_s: float) -> None:
        """Close every connection when its answers have been sent, or after `grace_s`."""
        for connection in self.admission:
            connection.close()
        try:
            async with asyncio.timeout(grace_s):
                await self.admission.is_empty.wait()
        except TimeoutError:
            for connection in self.admission:
                connection.abort()


class Broker:
    """One cluster in this process; `start` and `stop` run on the event loop that serves it.

    `prepare` is called with the broker before the first client is accepted.
    """

    def __init__(
        self,
        settings: Settings,
        log: Log | None = None,
        *,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        files: Files | None = None,
        recorder: Recorder | None = None,
        prepare: Callable[[Broker], None] | None = None,
        executor: Executor | None = None,
        identity: IdentityProvider | None = None,
    ) -> None:
        """Serve with `settings`; clients may authenticate with the tokens of `identity`."""
        self._settings = settings
        self.identity = identity
        self._log = Log() if log is None else log
        self._clock: Clock = AdjustableClock() if clock is None else clock
        self._entropy: Entropy = SystemEntropy() if entropy is None else entropy
        self._files = files
        self._recording = Recording(recorder)
        self._prepare = prepare
        self._warnings = ClientWarnings(self._clock, self._log.warning)
        self._executor = executor
        self._listeners = NodeListeners(self._log)
        self._nodes: list[ServedNode] = []
        self._node_changes = asyncio.Lock()
        """Held while a node starts or stops: two starts at once would bind its ports twice, and a
        stop during a start would leave a running node without ports."""
        self._directory: BrokerDirectory | None = None
        self._maintenance: Maintenance | None = None
        self._scheduler: Scheduler | None = None
        self._context_of: Callable[[ServedNode, Listener], ListenerContext]
        self._memory_queue: MemoryQueue | None = None
        self._endpoints: dict[str, list[Endpoint]] = {}
        self._registered: AbstractSet[int] = frozenset()  # the nodes in the latest metadata
        self._gateway: Gateway | None = None
        self._controller_gateway: Gateway | None = None
        self._throttling: Sequence[Throttling] = ()  # for each gateway; empty without quotas
        self._authorization: Sequence[AuthorizationStep] = ()  # for each gateway
        self._faults: Faults | None = None
        self._specs: Sequence[ListenerSpec] = ()
        self._generated_certificates: GeneratedCertificates | None = None
        self._tls_servers: Mapping[str, TlsServer] = {}
        """The TLS side of listeners, by name."""
        self._sasl_settings: dict[str, SaslSettings] = {}
        """The settings of listeners whose clients authenticate by SASL, by name."""
        self._authorizer_settings: AuthorizerSettings | None = None
        """None if requests are not authorized."""
        self.cluster: Cluster | None = None

    async def start(self) -> None:
        """Listen and serve. On failure, everything that was opened is closed again.

        Raises AddressError, ConfigError, BrokerDirectoryError, SettingsError or TopicError.
        """
        try:
            self._open()
            self._make_gateway()
            await self._accept_clients()
        except BaseException:
            await self.stop(grace_s=0)
            raise

    def _open(self) -> None:
        """Check the settings, bind the ports and read the data."""
        settings = self._settings
        if self.identity is not None:
            from kafkalite.server.identity_settings import (  # noqa: PLC0415 - only with --oidc
                settings_with_identity,
            )

            settings = self._settings = settings_with_identity(settings, self.identity)
        node_ids = settings.node_ids
        settings.check_node_config()
        specs = self._specs = settings.listeners
        settings.check_users(specs)
        if settings.tls is not None:
            settings = self._make_certificates(specs)
        config = self._read_config(settings)
        self._report_unused_settings()
        self._tls_servers = self._make_tls_servers(specs, config)
        self._read_sasl_settings(specs, config)
        self._authorizer_settings = self._read_authorizer_settings(config)
        config.log_levels.set_initial_level(self._log.level.kafka_name)
        self._listeners.bind(specs, node_ids)
        self.cluster = cluster = self._open_cluster(config)
        # Subscribed late: if the disk prevents the start, the exception is the only report.
        directory = self._require_running()[1]
        directory.directory.health.subscribe(DiskFailureLog(self._log))
        self._report_lost_data(directory, cluster)
        directory.directory.end_loading()
        self._warn_of_missing_nodes(config, cluster)
        self._warn_about_telemetry(config)
        self._warn_about_security(config, cluster.metadata.image)
        self._registered = cluster.metadata.image.brokers.keys()
        cluster.metadata.subscribe(self._report_unregistered)
        self._bind_members(cluster)
        for node_id, listeners in self._listeners.items():
            self._set_addresses(cluster.nodes[node_id], listeners)

    def _open_cluster(self, config: BrokerConfig) -> Cluster:
        """Return the cluster in the data directory, with all topics of the settings."""
        settings = self._settings
        node_ids = settings.node_ids
        path = settings.log_directory
        files = self._files or OsFiles(is_durable=path is not None)
        directory = self._directory = BrokerDirectory(
            files, path, node_ids[0], self._entropy, cluster_id=settings.cluster_id
        )
        try:
            self.cluster = Cluster(
                cluster_id=directory.cluster_id,
                directory=directory.directory,
                clock=self._clock,
                entropy=self._entropy,
                config=config,
                node_ids=node_ids,
                on_truncation=partial(log_truncation, self._log),
            )
            self.cluster.create_missing_topics(settings.topics)
            self._store_users(self.cluster)
        except UnreadableLogError as error:
            raise BrokerDirectoryError(
                f"cannot use {error.filename}: {error.strerror}; {_METADATA_LOG_ADVICE}"
            ) from error
        except (NoNodesError, UnsupportedLevelError) as error:
            raise BrokerDirectoryError(f"cannot use {directory.path}: {error}") from error
        except OSError as error:
            failed_path = error.filename or directory.path
            raise BrokerDirectoryError(f"cannot use {failed_path}: {error.strerror}") from error
        return self.cluster

    def _bind_members(self, cluster: Cluster) -> None:
        """Release the ports of removed nodes, and bind those of added nodes."""
        if self._listeners.update({node.id: node.added for node in cluster.nodes.values()}):
            self._log.info(
                "nodes were added or removed while the cluster ran",
                nodes=", ".join(map(str, cluster.nodes)),
            )

    def _make_certificates(self, specs: Sequence[ListenerSpec]) -> Settings:
        """Make certificates, and return the settings with them; raises SettingsError."""
        from kafkalite.server.generated_certificates import (  # noqa: PLC0415 - only with --tls
            GeneratedCertificates,
        )

        settings = self._settings
        certificates = GeneratedCertificates(settings, specs, self._entropy)
        self._generated_certificates = certificates
        return settings._replace(config={**settings.config, **certificates.config})

    @staticmethod
    def _read_config(settings: Settings) -> BrokerConfig:
        config = BrokerConfig.from_text(
            settings.config,
            as_version=settings.as_version,
            defaults=settings.defaults,
            node_count=settings.brokers,
        )
        for node_id, text in settings.node_config.items():
            config.configure_node(node_id, text)
        return config

    def _make_tls_servers(
        self, specs: Sequence[ListenerSpec], config: BrokerConfig
    ) -> Mapping[str, TlsServer]:
        """Load keys and certificates of the encrypted listeners; raises SettingsError."""
        encrypted = [spec for spec in specs if spec.protocol.uses_tls]
        if not encrypted:
            return {}
        from kafkalite.security.tls import TlsError, TlsServer  # noqa: PLC0415 - only with TLS

        servers = {}
        for spec in encrypted:
            security = ListenerSecurity(spec.name, spec.protocol, config)
            try:
                servers[spec.name] = server = TlsServer(security, self._report_failed_reload)
            except TlsError as error:
                raise SettingsError(str(error)) from error
            config.dynamic_checks.append(server.check_change)
        return servers

    def _read_sasl_settings(self, specs: Sequence[ListenerSpec], config: BrokerConfig) -> None:
        """Read the settings of the listeners with SASL; raises ConfigError."""
        authenticating = [spec for spec in specs if spec.protocol.uses_sasl]
        if not authenticating:
            return
        from kafkalite.server.sasl_listener import SaslSettings  # noqa: PLC0415 - rarely used

        def report(reason: str) -> None:
            self._log.error("the former SASL settings remain in use", reason=reason)

        # The same for all listeners: otherwise only unknown users had different salts on them.
        scram_secret = self._entropy.uuid() + self._entropy.uuid()
        for spec in authenticating:
            security = ListenerSecurity(spec.name, spec.protocol, config)
            self._sasl_settings[spec.name] = listener_settings = SaslSettings(
                security,
                self._settings.users,
                scram_secret,
                report,
                partial(self._new_token_validator, config.release.rules),
            )
            config.dynamic_checks.append(listener_settings.check_change)

    def _new_token_validator(
        self, rules: Rules, security: ListenerSecurity, options: Mapping[str, str]
    ) -> TokenValidator:
        """Return the validator of a listener's signed tokens; raises ConfigError."""
        from kafkalite.server.token_validator import (  # noqa: PLC0415 - rarely used
            TokenValidator,
            read_signed_token_settings,
        )

        settings = read_signed_token_settings(
            security, options, requires_names=rules.requires_token_names
        )
        if self.identity is not None and settings.url == self.identity.jwks_endpoint:
            from kafkalite.server.provider_keys import ProviderKeys  # noqa: PLC0415 - as above

            return TokenValidator(settings.rules, ProviderKeys(self.identity))

        def report(reason: str) -> None:
            line = "the keys of signed tokens cannot be loaded"
            self._log.error(line, listener=security.name, reason=reason)

        loop = asyncio.get_running_loop()
        return TokenValidator.open(
            settings,
            clock=self._clock,
            new_executor=lambda: ThreadExecutor(loop, "kafkalite-token-keys"),
            report=report,
        )

    def _report_unused_settings(self) -> None:
        """Log the settings that have no effect."""
        settings = self._settings
        for key, consequence in settings.unsupported.items():
            self._log.warning(consequence, key=key, value=settings.config[key])
        keys = [
            key for key in keys_without_effect(settings.config) if key not in settings.unsupported
        ]
        if keys:
            self._log.info("settings without effect here", keys=", ".join(keys))

    def _warn_of_missing_nodes(self, config: BrokerConfig, cluster: Cluster) -> None:
        """Warn about internal topics that cannot be created: clients only wait and retry."""
        nodes = self._settings.brokers
        for topic, key in _REPLICATION_FACTOR_KEYS.items():
            factor = config.int(key)
            if factor > nodes and topic not in cluster.metadata.image.topics:
                self._log.warning(
                    "an internal topic cannot be created with this number of nodes, "
                    "so its clients find no coordinator",
                    topic=topic,
                    nodes=nodes,
                    key=key,
                    value=factor,
                )

    def _warn_about_telemetry(self, config: BrokerConfig) -> None:
        """Warn if clients are offered to push metrics that cannot be decoded."""
        if not config.bool(CLIENT_TELEMETRY):
            return
        from kafkalite.telemetry.otlp import reason_not_decoded  # noqa: PLC0415 - rarely used

        reason = reason_not_decoded()
        if reason is not None:
            self._log.warning(reason)

    def _warn_about_security(self, config: BrokerConfig, image: MetadataImage) -> None:
        """Warn about listeners that are not secured as expected, and about the authorizer."""
        authorizer, text = config.str("authorizer.class.name"), config.static_text
        uses_sasl = any(spec.protocol.uses_sasl for spec in self._specs)
        has_misleading_name = any(spec.has_misleading_name for spec in self._specs)
        if not (uses_sasl or authorizer or "super.users" in text or has_misleading_name):
            return
        from kafkalite.server.security_warnings import (  # noqa: PLC0415 - rarely used
            authorizer_warnings,
            listener_warnings,
            sasl_warnings,
        )

        listeners = [ListenerSecurity(spec.name, spec.protocol, config) for spec in self._specs]
        for line, fields in (
            *listener_warnings(self._specs, text),
            *sasl_warnings(listeners, self._settings.users, image),
            *authorizer_warnings(authorizer, text, image),
        ):
            self._log.warning(line, **fields)

    def _report_lost_data(self, directory: BrokerDirectory, cluster: Cluster) -> None:
        """Log the data that could not be loaded."""
        for name, stray in directory.directory.renamed_directories:
            self._log.warning(
                "a directory was renamed because it belongs to no topic",
                directory=name,
                renamed=stray,
            )
        for (topic, index), recovery_point in directory.directory.missing_directories.items():
            self._log.warning(
                "the directory of a partition is missing, and its records are lost",
                partition=f"{topic}-{index}",
                lost_offsets=f"0 to {recovery_point - 1}",
            )
        for (topic, index), log in cluster.partitions.logs().items():
            if log.truncated_bytes:
                fields = {"cut_bytes": log.truncated_bytes, "end_offset": log.end_offset}
                if log.truncated_end_offset > log.end_offset:
                    # Those before the next start of the system, such as a loss of power.
                    fields["acknowledged_end_offset"] = log.truncated_end_offset
                self._log.warning(
                    "the unreadable end of a log was truncated",
                    partition=f"{topic}-{index}",
                    **fields,
                )
        for topic, entities, unreadable in (
            (OFFSETS_TOPIC, "groups", cluster.groups.unreadable),
            (SHARE_STATE_TOPIC, "share states", cluster.shares.unreadable),
            (TRANSACTION_STATE_TOPIC, "transactional ids", cluster.transactions.unreadable),
        ):
            for index, error in unreadable.items():
                self._report_unreadable(f"{topic}-{index}", entities, error)

    def _report_unreadable(self, partition: str, entities: str, error: Exception) -> None:
        line = f"{entities} of this partition have no coordinator: its log is unreadable"
        if isinstance(error, UnreadableLogError):
            self._log.error(
                line,
                partition=partition,
                path=error.filename,
                reason=error.strerror,
                action="stop the broker and restore the file from a copy, or remove the directory "
                f"{partition} to start without these {entities}",
            )
        else:
            self._log.error(line, exception=error, partition=partition)

    def _make_gateway(self) -> None:
        cluster, _ = self._require_running()
        for node in cluster.nodes.values():
            node.warn_about_client = self._warnings.warn
        config = cluster.config
        is_unstable = config.bool("unstable.api.versions.enable")
        self._gateway = Gateway(
            api_finder(config.release, unstable=is_unstable),
            self._report_bug,
            cluster.groups.window,
        )
        if any(spec.is_for_controllers for spec in self._specs):
            self._controller_gateway = self._new_controller_gateway(config)
        self._throttle_clients(cluster.metadata.image, MetadataDelta())
        cluster.metadata.subscribe(self._throttle_clients)
        cluster.metadata.subscribe(self._limit_connections)
        self._install_authorizer()
        self._install_profile(config)
        self._log_exchanges()
        config.log_levels.subscribe(self._set_log_level)
        cluster.open(InterBrokerCalls(self._gateway))
        if self._prepare is not None:
            self._prepare(self)

    def _new_controller_gateway(self, config: BrokerConfig) -> Gateway:
        """Return the gateway of clients of the controller."""
        from kafkalite.apis.controllers import controller_api_finder  # noqa: PLC0415 - rarely used

        is_unstable = config.bool("unstable.api.versions.enable")
        return Gateway(
            controller_api_finder(config.release, unstable=is_unstable), self._report_bug
        )

    @property
    def _gateways(self) -> Sequence[Gateway]:
        """The gateways of clients of the nodes, and of clients of the controller."""
        controller = self._controller_gateway
        return (self.gateway,) if controller is None else (self.gateway, controller)

    def _gateway_of(self, spec: ListenerSpec) -> Gateway:
        """Return the gateway of the clients of a listener."""
        return self._gateways[-1] if spec.is_for_controllers else self.gateway

    def _throttle_clients(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply the quotas of an image to clients."""
        if not self._throttling:
            if not image.client_quotas:
                return
            from kafkalite.gateway.throttling import (  # noqa: PLC0415 - rarely used
                Throttling,
                new_mutation_meters,
            )

            mutations = new_mutation_meters(self._require_running()[0].config)
            self._throttling = [Throttling(each, mutations) for each in self._gateways]
        for throttling in self._throttling:
            throttling.on_image(image, delta)

    def _limit_connections(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply the limits for connections, which dynamic settings may have changed."""
        del image, delta
        for served in self._nodes:
            served.admission.apply_settings()

    @staticmethod
    def _read_authorizer_settings(config: BrokerConfig) -> AuthorizerSettings | None:
        """Return the settings of the authorizer, if one is configured; raises SettingsError."""
        if not config.str("authorizer.class.name"):
            return None
        from kafkalite.security.authorizer import AuthorizerSettings  # noqa: PLC0415 - rarely used

        try:
            return AuthorizerSettings.from_text(
                config.static_text, matches_ranges=config.release.rules.requires_acl_hosts
            )
        except ValueError as error:
            raise SettingsError(str(error)) from error

    def _install_authorizer(self) -> None:
        """Check requests by ACLs, if an authorizer is configured."""
        if self._authorizer_settings is None:
            return
        from kafkalite.apis.authorization.step import AuthorizationStep  # noqa: PLC0415 - rarely used

        # A broker without a listener for controllers has one gateway, and one step.
        self._authorization = [
            AuthorizationStep(self._authorizer_settings, is_for_controllers=is_for_controllers)
            for _, is_for_controllers in zip(self._gateways, (False, True), strict=False)
        ]
        for gateway, step in zip(self._gateways, self._authorization, strict=True):
            gateway.install(step, StepOrder.AUTHORIZE)

    def _install_profile(self, config: BrokerConfig) -> None:
        """Apply the limits of the emulated service, if one is emulated."""
        profile = config.release.profile
        if profile is None:
            return
        from kafkalite.apis.profile_step import ProfileStep, reason_not_served  # noqa: PLC0415 - rarely used

        for gateway in self._gateways:
            gateway.reason_not_served = partial(reason_not_served, profile)
            gateway.install(ProfileStep(config.release), StepOrder.POLICY)

    async def _accept_clients(self) -> None:
        """Start the listeners, and then maintenance."""
        cluster, _ = self._require_running()
        config = cluster.config
        loop = asyncio.get_running_loop()
        scheduler, memory_queue, session_settings = self._client_services(loop, cluster)
        controller = self._controller_gateway
        controller_session_settings = session_settings
        if controller is not None:
            controller_session_settings = session_settings._replace(
                serve=controller.serve,
                serve_in_worker=controller.serve_in_worker,
                flush=controller.flush,
            )

        def context_of(served: ServedNode, listener: Listener) -> ListenerContext:
            return ListenerContext(
                node=served.node,
                listener=listener.name,
                admission=served.admission,
                session_settings=(
                    controller_session_settings if listener.is_for_controllers else session_settings
                ),
                scheduler=scheduler,
                memory_queue=memory_queue,
                log=self._log,
                warn_about_client=self._warnings.warn,
                recording=self._recording,
                sasl=self._sasl_listener(served.node, listener),
                tls_server=self._tls_servers.get(listener.name),
            )

        self._context_of = context_of
        for served in self._nodes:
            await self._serve_node(served)
        executor = self._executor = self._executor or ThreadExecutor(loop)
        self._maintenance = Maintenance(cluster, config, self._clock, self._log, executor)
        self._maintenance.start()
        self._remove_abandoned(executor, remove_abandoned())

    def _sasl_listener(self, node: Node, listener: Listener) -> SaslListener | None:
        """Return the authentication of a listener, if its clients authenticate by SASL."""
        settings = self._sasl_settings.get(listener.name)
        if settings is None:
            return None
        from kafkalite.server.sasl_listener import SaslListener  # noqa: PLC0415 - rarely used

        controller = self._controller_gateway if listener.is_for_controllers else None
        return SaslListener(node, settings, self.gateway, controller)

    def _store_users(self, cluster: Cluster) -> None:
        """Store the SCRAM credentials of the users in the settings."""
        if self._settings.users:
            from kafkalite.server.scram_users import store_users  # noqa: PLC0415 - rarely used

            store_users(cluster.metadata, self._settings.users, self._entropy)

    async def _serve_node(self, served: ServedNode) -> None:
        """Accept the clients of one node."""
        loop = asyncio.get_running_loop()
        served.admission.start()
        for listener in served.listeners:
            await listener.start(loop, self._context_of(served, listener))

    async def stop_node(self, node_id: int, *, controlled: bool = False) -> None:
        """Stop a node as if it was killed.

        A `controlled` shutdown is that of Kafka's broker on SIGTERM: first other nodes lead the
        partitions of the node, and the answers that this ends are sent. Raises NodeError if the
        node is isolated. A node that is being started is stopped afterwards.
        """
        cluster, _ = self._require_running()
        cluster.node_control.node(node_id)
        async with self._node_changes:
            if controlled:
                await self._shut_down_node(cluster, node_id)
            else:
                self._kill_node(cluster, node_id)

    def _kill_node(self, cluster: Cluster, node_id: int) -> None:
        node = cluster.node_control.node(node_id)
        was_stopped = node.state is NodeState.STOPPED
        try:
            cluster.node_control.stop(node_id)
        finally:
            # Also if the disk refused the change of the metadata.
            if node.state is NodeState.STOPPED:
                for served in self._served(node_id):
                    served.kill()
                if not was_stopped:
                    self._log.info("stopped a node", node=node_id)

    async def _shut_down_node(self, cluster: Cluster, node_id: int) -> None:
        node = cluster.node_control.node(node_id)
        was_stopped = node.state is NodeState.STOPPED
        cluster.node_control.shut_down(node_id)
        if not was_stopped:
            for served in self._served(node_id):
                await served.shut_down()
            self._log.info("shut down a node", node=node_id)

    async def add_node(
        self, node_id: int | None = None, settings: Mapping[str, str] | None = None
    ) -> int:
        """Add a running node, and return its id: by default the one after the largest id.

        The node has no partitions until some are assigned to it. Later starts of the cluster begin
        with it, too. Raises NodeError for an id that is taken, ConfigError for invalid `settings`,
        AddressError if no port is free, and KafkaError if the disk refuses the change.
        """
        cluster, _ = self._require_running()
        async with self._node_changes:
            new_id = cluster.node_control.check_new(node_id)
            listeners = self._listeners.add(new_id)
            added = AddedNode(dict(settings or {}), registered_listeners(listeners))

            def prepare(node: Node) -> None:
                node.warn_about_client = self._warnings.warn
                self._set_addresses(node, listeners)

            try:
                cluster.node_control.add(new_id, added, prepare)
            finally:
                if new_id not in cluster.nodes:
                    self._forget_node(new_id)
                else:
                    for served in self._served(new_id):
                        await self._serve_node(served)
                    self._log.info("added a node", node=new_id)
        return new_id

    async def remove_node(self, node_id: int) -> None:
        """Remove a node without replicas; a running one is shut down before.

        Later starts of the cluster begin without it. Raises UnknownNodeError, NodeError for a node
        with replicas and for the last running one, and KafkaError if the disk refuses the change.
        """
        cluster, _ = self._require_running()
        async with self._node_changes:
            node = cluster.node_control.check_removal(node_id)
            if node.state is NodeState.RUNNING:
                await self._shut_down_node(cluster, node_id)
            elif node.state is NodeState.ISOLATED:
                self._kill_node(cluster, node_id)
            cluster.node_control.remove(node_id)
            self._forget_node(node_id)
            self._log.info("removed a node", node=node_id)

    def _report_unregistered(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if not delta.brokers_changed:
            return
        before, self._registered = self._registered, image.brokers.keys()
        for node_id in sorted(before - self._registered):
            self._log.info("unregistered a node", node=node_id)

    def _forget_node(self, node_id: int) -> None:
        """Release everything that belongs to a removed node."""
        self._listeners.release(node_id)
        for step in self._authorization:
            step.forget_node(node_id)
        self._nodes = [served for served in self._nodes if served.node.id != node_id]
        for name, endpoints in self._endpoints.items():
            self._endpoints[name] = [each for each in endpoints if each.node_id != node_id]

    def isolate_node(self, node_id: int) -> None:
        """Cut a node off from all other nodes; clients still reach it.

        From then on, requests for the controller wait at isolated nodes. Raises NodeError for a
        stopped node, and for the last running one.
        """
        cluster, _ = self._require_running()
        before = cluster.node_control.node(node_id).state
        cluster.node_control.isolate(node_id)
        if before is not NodeState.ISOLATED:
            self._log.info("isolated a node", node=node_id)
        from kafkalite.gateway.forwarding import FORWARDING  # noqa: PLC0415 - rarely used

        # No effect if it is installed already.
        self.gateway.install(FORWARDING, StepOrder.FORWARD)

    async def start_node(self, node_id: int) -> None:
        """Start a stopped node, or connect an isolated one; no effect on a running one.

        Raises UnknownNodeError, and AddressError if the node's port was taken meanwhile.
        """
        cluster, _ = self._require_running()
        cluster.node_control.node(node_id)
        async with self._node_changes:
            node = cluster.node_control.node(node_id)
            before = node.state
            served = self._served(node_id)
            try:
                if before is NodeState.STOPPED:
                    for listener in chain.from_iterable(each.listeners for each in served):
                        listener.bind_again()
                cluster.node_control.start(node_id)
            finally:
                if node.state is NodeState.STOPPED:
                    # A port was taken, or the disk refused the change of the metadata.
                    for each in served:
                        each.kill()
                elif before is NodeState.STOPPED:
                    # Last, as in Kafka: clients are not served by a node that is not registered.
                    for each in served:
                        await self._serve_node(each)
                if before is not NodeState.RUNNING and node.state is NodeState.RUNNING:
                    self._log.info("started a node", node=node_id)

    def _served(self, node_id: int) -> Sequence[ServedNode]:
        return [served for served in self._nodes if served.node.id == node_id]

    def _client_services(
        self, loop: asyncio.AbstractEventLoop, cluster: Cluster
    ) -> tuple[Scheduler, MemoryQueue, SessionSettings]:
        """Return the scheduler, the memory queue and the session settings of all connections."""
        config = cluster.config
        gateway = self.gateway
        queued_bytes = config.int("queued.max.request.bytes")
        buffers = ReceiveBuffers(queued_bytes if queued_bytes > 0 else _DEFAULT_QUEUED_BYTES)
        self._scheduler = Scheduler(loop, buffers)
        if isinstance(self._clock, AdjustableClock):
            late_loop = LateLoop(self._log)
            self._clock.on_late = lambda lateness_s: late_loop.report(lateness_s, loop.time())
        self._memory_queue = MemoryQueue(
            loop, buffers, lambda: chain.from_iterable(served.admission for served in self._nodes)
        )
        session_settings = SessionSettings(
            buffers=buffers,
            serve=gateway.serve,
            serve_in_worker=gateway.serve_in_worker,
            wake=Connection.wake,
            max_request_bytes=config.int("socket.request.max.bytes"),
            max_buffered_bytes=SHARED_BUFFER_BYTES // 2,
            is_turn_over=self._scheduler.is_turn_over,
            flush=gateway.flush,
        )
        return self._scheduler, self._memory_queue, session_settings

    def _remove_abandoned(self, executor: Executor, removal: Iterator[str | None]) -> None:
        """Remove the data of one broker that was killed, then continue with the next."""
        removed: list[str | None] = []

        def on_done(_: Exception | None) -> None:
            for path in filter(None, removed):
                self._log.debug("removed the temporary data of a killed broker", directory=path)
            if removed:
                self._remove_abandoned(executor, removal)

        executor.submit(lambda: removed.extend(islice(removal, 1)), on_done)

    async def stop(self, grace_s: float = 1.0) -> bool:
        """Stop, and return whether the data was closed cleanly; does nothing if not started.

        Pending answers may take `grace_s` seconds to be sent.
        """
        self._listeners.stop()
        if self._maintenance is not None:
            self._maintenance.stop()
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.close()
        for sasl_settings in self._sasl_settings.values():
            sasl_settings.close()
        for served in self._nodes:
            served.stop_serving()
        if self.cluster is not None:
            # Requests that wait are answered now; the answers are encoded in the next iteration.
            self.cluster.stop()
            await asyncio.sleep(0)
        for served in self._nodes:
            await served.close(grace_s)
        self._end_serving()
        certificates, self._generated_certificates = self._generated_certificates, None
        if certificates is not None:
            certificates.remove()
        directory, self._directory = self._directory, None
        cluster, self.cluster = self.cluster, None
        return directory is None or self._close_data(directory, cluster)

    def _close_data(self, directory: BrokerDirectory, cluster: Cluster | None) -> bool:
        """Close the data directory, and return whether that succeeded."""
        try:
            directory.close(None if cluster is None else cluster.partitions.logs())
        except OSError as error:
            # No data is lost: the next start recovers the data that could not be written now.
            self._log.error(
                "the data directory could not be closed cleanly",
                directory=directory.path,
                path=error.filename,
                reason=error.strerror or str(error),
            )
            return False
        return True

    def _end_serving(self) -> None:
        """Close the parts that served clients, after all clients have disconnected."""
        self._warnings.stop()
        if self._scheduler is not None:
            self._scheduler.stop()
        if self._memory_queue is not None:
            self._memory_queue.stop()
        faults, self._faults = self._faults, None
        if faults is not None:
            faults.close()
        gateway, self._gateway = self._gateway, None
        self._controller_gateway = None
        if gateway is not None:
            gateway.close()
        self._nodes.clear()

    def use_garbage_collector(self, collect: Callable[[], object]) -> None:
        """Call `collect` instead of `gc.collect` before freed memory is returned."""
        if self._scheduler is not None:
            self._scheduler.collect_garbage = collect

    @property
    def is_busy(self) -> bool:
        """Whether requests are queued."""
        return self._scheduler is not None and self._scheduler.is_busy

    @property
    def gateway(self) -> Gateway:
        """The gateway that serves the requests of all nodes, but not those to the controller."""
        if self._gateway is None:
            raise RuntimeError("the broker is not running")
        return self._gateway

    def subscribe(self, observer: Observer) -> None:
        """Call `observer` with the exchange of each request that a client sends from now on."""
        for gateway in self._gateways:
            gateway.subscribe(observer)

    def unsubscribe(self, observer: Observer) -> None:
        """Stop calling an observer of exchanges; see `Gateway.unsubscribe`."""
        for gateway in self._gateways:
            gateway.unsubscribe(observer)

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap addresses of the first listener: `host:port,…`."""
        return next(iter(self.bootstrap_by_listener().values()))

    def bootstrap_by_listener(self) -> Mapping[str, str]:
        """Return the bootstrap addresses by listener name."""
        return {
            name: ",".join(str(Address(each.host, each.port)) for each in endpoints)
            for name, endpoints in self._endpoints.items()
        }

    def protocol_by_listener(self) -> Mapping[str, SecurityProtocol]:
        """Return the security protocols by listener name, in the order of the listeners."""
        return {spec.name: spec.protocol for spec in self._specs}

    @property
    def has_authorizer(self) -> bool:
        """Whether requests are checked by ACLs."""
        return bool(self._require_running()[0].config.str("authorizer.class.name"))

    @property
    def certificate_files(self) -> CertificateFiles | None:
        """The files with certificates that the broker made; None if it made none."""
        certificates = self._generated_certificates
        return None if certificates is None else certificates.files

    def new_endpoint_tls(self, *, is_required: bool) -> TlsServer | None:
        """Return TLS for another endpoint, with the certificate of the first listener with TLS.

        Without such a listener, it is None, or that of the settings without a listener's name if it
        is required. Clients of the endpoint need no certificate. Raises SettingsError.
        """
        encrypted = [spec.name for spec in self._specs if spec.protocol.uses_tls]
        if not encrypted and not is_required:
            return None
        from kafkalite.security.tls import TlsError, TlsServer  # noqa: PLC0415 - only with TLS

        config = self._require_running()[0].config
        if not encrypted and not any(map(config.get, _KEY_STORE_KEYS)):
            raise SettingsError(
                "--control-tls on needs a certificate: set ssl.keystore.location, or add a "
                "listener with TLS, such as --listen SSL://127.0.0.1:9093 --tls auto"
            )

        def get(key: str) -> Value:
            return "none" if key.endswith("ssl.client.auth") else config.get(key)

        name = encrypted[0] if encrypted else _ENDPOINT_NAME
        security = ListenerSecurity(name, SecurityProtocol.SSL, ProposedValues(get))
        try:
            return TlsServer(security, self._report_failed_reload)
        except TlsError as error:
            raise SettingsError(str(error)) from error

    def _report_failed_reload(self, reason: str) -> None:
        self._log.error("the former certificates remain in use", reason=reason)

    @property
    def disk_failures(self) -> Sequence[DiskFailure]:
        """Current problems of the disk: refused operations, damaged and missing files."""
        return self._require_running()[1].directory.health.failures

    @property
    def clock(self) -> Clock:
        """The clock of all parts of the broker."""
        return self._clock

    @property
    def recorder(self) -> Recorder | None:
        """The recorder of all traffic, if traffic is recorded."""
        return self._recording.recorder

    def start_recording(self, recorder: Recorder) -> None:
        """Record all connections; raises RuntimeError if they are recorded already."""
        connections = chain.from_iterable(served.admission for served in self._nodes)
        self._recording.start(recorder, connections)

    def stop_recording(self) -> Recorder | None:
        """Stop recording, and return the recorder, which the caller must close."""
        return self._recording.stop()

    @property
    def history(self) -> EventHistory:
        """Recent events of groups and transactional ids, with reasons."""
        return self._require_running()[0].history

    @property
    def faults(self) -> Faults:
        """The injected faults: requests that are delayed, refused or disconnected."""
        if self._faults is None:
            from kafkalite.gateway.faults import Faults  # noqa: PLC0415 - rarely used

            cluster, _ = self._require_running()
            self._faults = Faults(
                self._gateways,
                cluster.nodes,
                {spec.name: self._gateway_of(spec) for spec in self._specs},
                self._entropy,
                self._report_fault_rule,
            )
        return self._faults

    @property
    def emulated(self) -> str | None:
        """The Kafka release or the service that is emulated, if one was set, as text."""
        if self._settings.as_version is None:
            return None
        release = self._require_running()[0].config.release
        if release.profile is None:
            return f"Kafka {release.name}"
        return f"{release.profile.service}, otherwise as Kafka {release.name}"

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self._require_running()[1].cluster_id

    @property
    def data_directory(self) -> str:
        """The path of the data directory."""
        return self._require_running()[1].path

    @property
    def is_temporary(self) -> bool:
        """Whether the data directory is removed when the broker stops."""
        return self._require_running()[1].is_temporary

    def _require_running(self) -> tuple[Cluster, BrokerDirectory]:
        if self.cluster is None or self._directory is None:
            raise RuntimeError("the broker is not running")
        return self.cluster, self._directory

    def _set_addresses(self, node: Node, listeners: Sequence[Listener]) -> None:
        """Set the addresses of a node in the metadata of its clients and in its settings."""
        cluster, directory = self._require_running()
        config = cluster.config
        for is_for_controllers in (False, True):
            group = [each for each in listeners if each.is_for_controllers is is_for_controllers]
            if group:
                admission = Admission(config, self._clock, [each.name for each in group])
                self._nodes.append(ServedNode(node, group, admission))
        for listener in listeners:
            advertised = listener.advertised_address
            endpoint = node.set_endpoint(listener.name, advertised.host, advertised.port)
            self._endpoints.setdefault(listener.name, []).append(endpoint)
        config.set_node_text(
            node.id,
            {
                "listeners": ",".join(f"{each.name}://{each.bound_address}" for each in listeners),
                "advertised.listeners": ",".join(
                    f"{each.name}://{each.advertised_address}"
                    for each in listeners
                    if not each.is_for_controllers
                ),
                "log.dirs": directory.path,
            },
        )

    def _set_log_level(self, kafka_name: str) -> None:
        self._log.level = Level.of_kafka(kafka_name)
        self._log_exchanges()

    def _log_exchanges(self) -> None:
        """Log requests at level debug only: observers cost time."""
        change = self.subscribe if self._log.level <= Level.DEBUG else self.unsubscribe
        change(self._log_exchange)

    def _log_exchange(self, exchange: Exchange) -> None:
        log_exchange(self._log, exchange)

    def _report_fault_rule(self, event: str, fault: str, rule: str) -> None:
        self._log.info(event, fault=fault, rule=printable(rule))

    def _report_bug(self, api_name: str, error: Exception) -> None:
        self._log.error("a request failed because of a bug", exception=error, api=api_name)
