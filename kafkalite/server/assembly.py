"""Assembly of a cluster from settings: its configuration, its security and its data.

Nothing here opens a socket or starts a task: clock, entropy, files and executors are arguments.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

from kafkalite.cluster.cluster import Cluster
from kafkalite.config.broker import BrokerConfig, is_of_tls, parse_broker_text
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.coordinator.contract import UnreadableLogError
from kafkalite.metadata.brokers import NoNodesError, UsedControllerIdError
from kafkalite.metadata.features import (
    FeatureUpdate,
    UnsupportedLevelError,
    dependency_problem,
    with_formatted_levels,
)
from kafkalite.ports.files import OsFiles
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.system import machine_bytes
from kafkalite.security.listener_security import ListenerSecurity, ProposedValues
from kafkalite.server.broker_directory import (
    MEMORY_PATH,
    BrokerDirectory,
    BrokerDirectoryError,
    check_has_no_data,
)
from kafkalite.server.settings import SettingsError
from kafkalite.storage.data_directory import BOOT_FILE, CLEAN_SHUTDOWN_FILE, RECOVERY_POINTS_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import ExitStack

    from kafkalite.cluster.pace import Pace
    from kafkalite.cluster.state import ClusterState
    from kafkalite.config.definitions import Value
    from kafkalite.config.releases import Release
    from kafkalite.identity.provider import IdentityProvider
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.entropy import Entropy
    from kafkalite.ports.executors import Executor
    from kafkalite.ports.files import Files
    from kafkalite.security.authorizer import AuthorizerSettings
    from kafkalite.security.certificates import CertificateFiles
    from kafkalite.security.tls import TlsServer
    from kafkalite.server.addresses import ListenerSpec
    from kafkalite.server.declared_data import DeclaredState
    from kafkalite.server.reports import Reports
    from kafkalite.server.sasl_listener import SaslSettings
    from kafkalite.server.settings import Settings
    from kafkalite.server.token_validator import TokenValidator

_METADATA_LOG_ADVICE: Final = (
    f"restore the file from a copy, or delete {CLEAN_SHUTDOWN_FILE}, {RECOVERY_POINTS_FILE} and "
    f"{BOOT_FILE} in the data directory: the next start then truncates the metadata from this "
    "batch on, as Kafka does, and renames the directories of the lost topics"
)
"""Advice for the operator about a damaged metadata log."""

_ENDPOINT_NAME: Final = "CONTROL"
"""The name of an endpoint in messages about its certificate, if no listener has one."""

_KEY_STORE_KEYS: Final = ("ssl.keystore.location", "ssl.keystore.key")
"""Settings with a key; one of them is required without a listener that has a certificate."""


class Environment(NamedTuple):
    """The clock, the disk and the like, which a cluster uses and does not choose."""

    clock: Clock
    entropy: Entropy
    new_executor: Callable[[str], Executor]
    """(name of the thread) → an executor for jobs that may take long."""
    files: Files | None = None
    """The files of the system by default."""
    identity: IdentityProvider | None = None
    """Its clients may authenticate with tokens."""


class ClusterAssembly:
    """The parts of one cluster that its settings define, before it has ports and data."""

    def __init__(
        self,
        settings: Settings,
        environment: Environment,
        reports: Reports,
        resources: ExitStack,
    ) -> None:
        """Check the settings. Raises AddressError, ConfigError or SettingsError.

        What must be released after the end of the cluster is added to `resources`, also if the
        settings are invalid.
        """
        self._environment = environment
        self._reports = reports
        self._resources = resources
        if environment.identity is not None:
            from kafkalite.server.identity_settings import (  # noqa: PLC0415 - only with --oidc
                settings_with_identity,
            )

            settings = settings_with_identity(settings, environment.identity)
        self.settings = settings
        settings.check_node_config()
        settings.check_controller_id()
        settings.check_storage()
        self.listeners = settings.listeners
        settings.check_users(self.listeners)
        self.certificate_files: CertificateFiles | None = None
        """The files of generated certificates; None if there are none."""
        self.config = self._read_config(self._generated_config())
        reports.unused_settings(settings)
        self.tls_servers: Mapping[str, TlsServer] = self._new_tls_servers()
        """The TLS side of listeners, by name."""
        self.node_tls_servers: Mapping[tuple[int, str], TlsServer] = self._new_node_tls_servers()
        """The TLS side of listeners of nodes with settings of their own, by node and name."""
        self.sasl_settings: Mapping[str, SaslSettings] = self._read_sasl_settings()
        """The settings of listeners whose clients authenticate by SASL, by name."""
        self._node_sasl_settings: dict[tuple[int, str], SaslSettings] = {}
        for node_id, listener in product(settings.node_config, self.sasl_settings):
            self.sasl_settings_of(node_id, listener)
        self.authorizer = self._read_authorizer_settings()
        """None if requests are not authorized."""

    def _generated_config(self) -> Mapping[str, str]:
        """Return the settings of generated certificates, after making the files."""
        routed = self.settings.routed
        if self.settings.tls is None or (routed is not None and routed.certificate_files is None):
            return {}
        from kafkalite.server.generated_certificates import (  # noqa: PLC0415 - only with --tls
            GeneratedCertificates,
            config_of,
        )

        if routed is not None and routed.certificate_files is not None:
            self.certificate_files = routed.certificate_files
            return config_of(routed.certificate_files)

        certificates = GeneratedCertificates(self.settings, self.listeners)
        self._resources.callback(certificates.remove)
        self.certificate_files = certificates.files
        return config_of(certificates.files)

    def _read_config(self, generated: Mapping[str, str]) -> BrokerConfig:
        settings = self.settings
        config = BrokerConfig.from_text(
            {**settings.config, **generated},
            as_version=settings.as_version,
            defaults=settings.defaults,
            node_count=settings.node_count,
            controller_id=settings.controller_id,
        )
        for node_id, text in settings.node_config.items():
            config.configure_node(node_id, text)
        for node_id in settings.node_ids:
            if len(paths := config.node_log_directories(node_id)) > 1:
                from kafkalite.server.directory_paths import offline_log_directories  # noqa: PLC0415 - rarely used

                config.offline_log_directories[node_id] = offline_log_directories(paths)
        if settings.state is not None and settings.state.features:
            config.release = _formatting_release(settings.state, config.release)
        return config

    def security_of(self, listener: ListenerSpec) -> ListenerSecurity:
        """Return the security settings of a listener."""
        return ListenerSecurity(listener.name, listener.protocol, self.config)

    def _new_tls_servers(self) -> Mapping[str, TlsServer]:
        """Load keys and certificates of the encrypted listeners; raises SettingsError."""
        servers = {}
        for listener in self.listeners:
            if listener.protocol.uses_tls and not listener.is_routed:
                server = self._new_tls_server(self.security_of(listener))
                servers[listener.name] = server
                self.config.dynamic_checks.append(server.check_change)
        return servers

    def _new_tls_server(self, security: ListenerSecurity) -> TlsServer:
        from kafkalite.security.tls import TlsError, TlsServer  # noqa: PLC0415 - only with TLS

        try:
            return TlsServer(
                security,
                self._reports.failed_reload_of_certificates,
                self._reports.weak_certificates,
            )
        except TlsError as error:
            raise SettingsError(str(error)) from error

    def _new_node_tls_servers(self) -> Mapping[tuple[int, str], TlsServer]:
        """Load keys and certificates that single nodes have; raises SettingsError."""
        servers = {}
        for node_id, config in self.settings.node_config.items():
            text = {key: value for key, value in config.items() if is_of_tls(key)}
            for listener in self.listeners if text else ():
                server = self.new_node_tls(listener, text)
                if server is not None:
                    servers[node_id, listener.name] = server
        return servers

    def new_node_tls(self, listener: ListenerSpec, text: Mapping[str, str]) -> TlsServer | None:
        """Return TLS of a listener for a node with settings of its own for certificates.

        `text` has the settings of TLS by key. Returns None if they are those of all nodes. Raises
        SettingsError for a key store that cannot be read, and ConfigError.
        """
        known = self.config.static_text
        if not listener.protocol.uses_tls or all(known.get(key) == text[key] for key in text):
            return None
        own = parse_broker_text(text, strict=True)

        def get(key: str) -> Value:
            return own[key] if key in own else self.config.get(key)

        return self._new_tls_server(
            ListenerSecurity(listener.name, listener.protocol, ProposedValues(get))
        )

    def new_endpoint_tls(self, *, is_required: bool) -> TlsServer | None:
        """Return TLS for another endpoint, with the certificate of the first listener with TLS.

        Without such a listener, it is None, or that of the settings without a listener's name if it
        is required. Clients of the endpoint need no certificate. Raises SettingsError.
        """
        encrypted = [each.name for each in self.listeners if each.protocol.uses_tls]
        if not encrypted and not is_required:
            return None
        config = self.config
        if not encrypted and not any(map(config.get, _KEY_STORE_KEYS)):
            raise SettingsError(
                "--control-tls on needs a certificate: set ssl.keystore.location, or add a "
                "listener with TLS, such as --listen SSL://127.0.0.1:9093 --tls auto"
            )

        def get(key: str) -> Value:
            return "none" if key.endswith("ssl.client.auth") else config.get(key)

        name = encrypted[0] if encrypted else _ENDPOINT_NAME
        return self._new_tls_server(
            ListenerSecurity(name, SecurityProtocol.SSL, ProposedValues(get))
        )

    def _read_sasl_settings(self) -> Mapping[str, SaslSettings]:
        """Read the settings of the listeners with SASL; raises ConfigError."""
        authenticating = [each for each in self.listeners if each.protocol.uses_sasl]
        if not authenticating:
            return {}
        entropy = self._environment.entropy
        # The same for all listeners: otherwise only unknown users had different salts on them.
        scram_secret = entropy.uuid() + entropy.uuid()
        return {
            listener.name: self._new_sasl_settings(self.security_of(listener), scram_secret)
            for listener in authenticating
        }

    def sasl_settings_of(self, node_id: int, listener: str) -> SaslSettings | None:
        """Return the settings of a listener of a node; None if its clients do not authenticate.

        Raises ConfigError for invalid settings of the node.
        """
        shared = self.sasl_settings.get(listener)
        if shared is None or not self.config.has_own_sasl(node_id):
            return shared
        own = self._node_sasl_settings.get((node_id, listener))
        if own is None:
            security = shared.security._replace(config=self.config.of_node(node_id))
            own = self._new_sasl_settings(security, shared.scram_secret)
            self._node_sasl_settings[node_id, listener] = own
        return own

    def _new_sasl_settings(self, security: ListenerSecurity, scram_secret: bytes) -> SaslSettings:
        from kafkalite.server.sasl_listener import SaslSettings  # noqa: PLC0415 - rarely used

        settings = SaslSettings(
            security,
            self.settings.users,
            scram_secret,
            self._reports.failed_reload_of_sasl_settings,
            self._new_token_validator,
        )
        self._resources.callback(settings.close)
        self.config.dynamic_checks.append(settings.check_change)
        return settings

    def _new_token_validator(
        self, security: ListenerSecurity, options: Mapping[str, str]
    ) -> TokenValidator:
        """Return the validator of a listener's signed tokens; raises ConfigError."""
        from kafkalite.server.token_validator import (  # noqa: PLC0415 - rarely used
            TokenValidator,
            read_signed_token_settings,
        )

        environment, rules = self._environment, self.config.release.rules
        settings = read_signed_token_settings(
            security, options, requires_names=rules.requires_token_names
        )
        identity = environment.identity
        if identity is not None and settings.url == identity.jwks_endpoint:
            from kafkalite.server.provider_keys import ProviderKeys  # noqa: PLC0415 - as above

            return TokenValidator(settings.rules, ProviderKeys(identity))
        return TokenValidator.open(
            settings,
            clock=environment.clock,
            new_executor=partial(environment.new_executor, "kafkalite-token-keys"),
            report=partial(self._reports.failed_load_of_token_keys, security.name),
        )

    def _read_authorizer_settings(self) -> AuthorizerSettings | None:
        """Return the settings of the authorizer, if one is configured; raises SettingsError."""
        config = self.config
        if not config.str("authorizer.class.name"):
            return None
        from kafkalite.security.authorizer import AuthorizerSettings  # noqa: PLC0415 - rarely used

        try:
            return AuthorizerSettings.from_text(
                config.static_text, matches_ranges=config.release.rules.requires_acl_hosts
            )
        except ValueError as error:
            raise SettingsError(str(error)) from error

    def open_directory(self, state: ClusterState | None = None) -> BrokerDirectory:
        """Open the data directory, with the files of a state if there is one.

        Raises BrokerDirectoryError.
        """
        settings, environment = self.settings, self._environment
        path, files = settings.log_directory, environment.files
        for other in settings.named_log_directories:
            check_has_no_data(files or OsFiles(), other, path)
        if state is not None:
            files = state.files.copy()
        elif files is None and settings.is_in_memory:
            from kafkalite.ports.memory_files import InMemoryFiles, Memory  # noqa: PLC0415 - not on disk

            limit_bytes = settings.memory_limit or machine_bytes() // 2
            files = InMemoryFiles(Memory(limit_bytes or None))
        return BrokerDirectory(
            files or OsFiles(is_durable=path is not None),
            MEMORY_PATH if settings.is_in_memory else path,
            settings.node_ids[0],
            environment.entropy,
            cluster_id=settings.cluster_id,
            is_in_memory=settings.is_in_memory,
            state=state,
            loads_state=settings.state is not None,
        )

    def open_cluster(
        self, directory: BrokerDirectory, state: ClusterState | None = None
    ) -> Cluster:
        """Return the cluster in a directory, in a state if that is given.

        Raises BrokerDirectoryError.
        """
        environment = self._environment
        with _errors_of(directory):
            return Cluster(
                cluster_id=directory.cluster_id,
                directory=directory.directory,
                clock=environment.clock,
                entropy=environment.entropy,
                config=self.config,
                node_ids=self.settings.node_ids,
                on_truncation=self._reports.truncation,
                state=state,
                pace=self._new_pace(),
            )

    def _new_pace(self) -> Pace | None:
        if self.settings.pace is None:
            return None
        from kafkalite.cluster.pace import Pace  # noqa: PLC0415 - only with --pace

        return Pace(self._environment.clock, self._environment.entropy)

    def populate(self, cluster: Cluster, directory: BrokerDirectory) -> None:
        """Create the topics and users of the settings that do not exist yet.

        Raises BrokerDirectoryError or TopicError.
        """
        with _errors_of(directory):
            cluster.create_missing_topics(self.settings.topics)
            self.store_users(cluster)

    def store_users(self, cluster: Cluster) -> None:
        """Store the users of the settings that are not stored, or that have another password."""
        users = self.settings.users
        if users:
            from kafkalite.server.scram_users import store_users  # noqa: PLC0415 - rarely used

            store_users(cluster.metadata, users, self._environment.entropy)


def _formatting_release(state: DeclaredState, release: Release) -> Release:
    """Return the release if it formats clusters with a state's levels; raises SettingsError."""
    formatted = with_formatted_levels(release, state.features)
    levels = {name: feature.formatted for name, feature in formatted.features.items()}
    for name, level in state.features.items():
        reason = dependency_problem(FeatureUpdate(name, level), levels)
        problem = release.level_problem(name, level)
        if problem is not None:
            reason = f"{name} cannot be at level {level}: Kafka {release.name} {problem}"
        if reason is not None:
            raise state.error(("features", name), reason)
    return formatted


@contextmanager
def _errors_of(directory: BrokerDirectory) -> Iterator[None]:
    """Turn the errors of unusable data into BrokerDirectoryError."""
    try:
        yield
    except UnreadableLogError as error:
        raise BrokerDirectoryError(
            f"cannot use {error.filename}: {error.strerror}; {_METADATA_LOG_ADVICE}"
        ) from error
    except (NoNodesError, UsedControllerIdError, UnsupportedLevelError) as error:
        raise BrokerDirectoryError(f"cannot use {directory.path}: {error}") from error
    except OSError as error:
        failed_path = error.filename or directory.path
        raise BrokerDirectoryError(f"cannot use {failed_path}: {error.strerror}") from error
