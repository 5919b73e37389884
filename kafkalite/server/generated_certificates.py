"""Certificates that a broker makes for itself and for its clients (`--tls auto`)."""

from __future__ import annotations

from os import makedirs
from typing import TYPE_CHECKING, Final

from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.temporary import new_temporary_directory
from kafkalite.security.client_addresses import is_address
from kafkalite.security.key_stores import SECURITY_EXTRA
from kafkalite.server.settings import SettingsError, names_key_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.ports.temporary import TemporaryDirectory
    from kafkalite.security.certificates import CertificateFiles
    from kafkalite.server.addresses import ListenerSpec
    from kafkalite.server.settings import Settings

_NAMES_OF_CLUSTERS: Final = "sni"
"""The value of `Settings.clusters` with which the names of clusters are before those of hosts."""
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_TRUST_STORE: Final = "ssl.truststore."


def config_of(files: CertificateFiles) -> dict[str, str]:
    """Return the settings of a broker that uses the files."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": files.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files.authority,
    }


class GeneratedCertificates:
    """Certificate files, in a given directory, the data directory or a temporary one."""

    __slots__ = ("_temporary", "files")

    def __init__(self, settings: Settings, specs: Iterable[ListenerSpec]) -> None:
        """Make the files that do not exist yet; raises SettingsError."""
        encrypted = [spec for spec in specs if spec.protocol.uses_tls]
        if not encrypted:
            raise SettingsError(
                "--tls needs a listener with TLS, such as --listen SSL://127.0.0.1:9093"
            )
        trust_store = next((key for key in settings.config if key.startswith(_TRUST_STORE)), None)
        own = names_key_store(settings.config) or trust_store
        if own is not None:
            raise SettingsError(f"--tls generates certificates, but {own} is set: remove one")
        self._temporary: TemporaryDirectory | None = None
        self.files: CertificateFiles = self._make(settings, encrypted)

    def remove(self) -> None:
        """Remove the files if they are in a temporary directory."""
        if self._temporary is not None:
            self._temporary.remove()

    def _make(self, settings: Settings, specs: Iterable[ListenerSpec]) -> CertificateFiles:
        try:
            from kafkalite.security.certificates import make_certificates  # noqa: PLC0415 - heavy
        except ImportError as error:
            raise SettingsError(f"generated certificates need {SECURITY_EXTRA}") from error
        hosts = [spec.advertised_address(0, 0).host for spec in specs]
        if settings.clusters == _NAMES_OF_CLUSTERS:
            hosts += [f"*.{host}" for host in hosts if not is_address(host)]
        directory = settings.tls_directory
        try:
            if directory is None:
                self._temporary = new_temporary_directory(SystemEntropy().uuid())
                directory = self._temporary.path
            else:
                makedirs(directory, exist_ok=True)  # noqa: PTH103 - Path adds nothing here
            return make_certificates(directory, (*hosts, *_LOOPBACK_NAMES))
        except OSError as error:
            self.remove()
            path = error.filename or directory
            raise SettingsError(f"--tls: cannot use {path}: {error.strerror}") from error
        except ValueError as error:
            self.remove()
            raise SettingsError(f"--tls: a certificate cannot have a name: {error}") from error
