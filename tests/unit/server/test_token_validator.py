"""TokenValidator: its settings, tokens with known and unknown keys, and keys that are missing."""

from __future__ import annotations

import builtins
import json
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError
from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.ports.executors import InlineExecutor
from kafkalite.security.certificates import CertificateAuthority
from kafkalite.security.listener_security import ListenerSecurity
from kafkalite.security.sasl.oauthbearer import InvalidTokenError
from kafkalite.security.sasl.signed_tokens import SignedTokenRules
from kafkalite.server import token_validator
from kafkalite.server.token_keys import RefreshTimes
from kafkalite.server.token_validator import (
    SignedTokenSettings,
    TokenValidator,
    read_signed_token_settings,
)
from kafkalite.testing.clock import ManualClock
from tests.unit.ports.workers import HeldWorker
from tests.unit.security.sasl.token_signer import NOW_S, TokenSigner

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PREFIX = "sasl.oauthbearer."
LISTENER = f"listener.name.outside.oauthbearer.{PREFIX}"
URL = f"{PREFIX}jwks.endpoint.url"
SIGNER = TokenSigner()
NOW_MS = 1000 * NOW_S


def settings_of(
    config: Mapping[str, str],
    options: Mapping[str, str] | None = None,
    *,
    requires_names: bool = False,
) -> SignedTokenSettings:
    security = ListenerSecurity(
        "OUTSIDE", SecurityProtocol.SASL_SSL, BrokerConfig.from_text(config, as_version="4.4")
    )
    return read_signed_token_settings(security, options or {}, requires_names=requires_names)


def test_the_defaults_are_those_of_kafka() -> None:
    assert settings_of({URL: "http://idp/keys"}) == SignedTokenSettings(
        rules=SignedTokenRules((), None, "sub", "scope", 30),
        url="http://idp/keys",
        times=RefreshTimes(3_600_000, 100, 10_000),
        certificates=None,
    )


@pytest.mark.parametrize("name", ["audience", "issuer"])
def test_an_omitted_check_must_be_named_in_the_settings(name: str) -> None:
    expected = {f"{PREFIX}expected.audience": "kafka", f"{PREFIX}expected.issuer": "https://idp"}
    config = {URL: "http://idp/keys", **expected}
    del config[f"{PREFIX}expected.{name}"]
    with pytest.raises(ConfigError, match=rf"expected.{name} is required .*unverified.{name}=true"):
        settings_of(config, requires_names=True)
    allowed = {**config, f"{PREFIX}allow.unverified.{name}": "true"}
    rules = settings_of(allowed, requires_names=True).rules
    assert rules.accepts_any_audience
    assert settings_of({**config, **expected}, requires_names=True).rules.issuer == "https://idp"


@pytest.mark.parametrize("prefix", [PREFIX, f"listener.name.outside.{PREFIX}", LISTENER])
def test_settings_apply_to_a_listener_or_to_all(prefix: str) -> None:
    config = {
        "expected.audience": "a, b",
        "expected.issuer": " https://idp ",
        "sub.claim.name": "name",
        "scope.claim.name": "groups",
        "clock.skew.seconds": "0",
        "jwks.endpoint.url": "https://idp/keys",
        "jwks.endpoint.refresh.ms": "1",
        "jwks.endpoint.retry.backoff.ms": "2",
        "jwks.endpoint.retry.backoff.max.ms": "3",
    }
    assert settings_of({f"{prefix}{key}": value for key, value in config.items()}) == (
        SignedTokenSettings(
            rules=SignedTokenRules(("a", "b"), "https://idp", "name", "groups", 0),
            url="https://idp/keys",
            times=RefreshTimes(1, 2, 3),
            certificates=None,
        )
    )


def test_authorities_for_https_come_from_the_options_of_the_login_module() -> None:
    pem = CertificateAuthority.create().pem.decode()
    options = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem}
    certificates = settings_of({URL: "https://idp/keys"}, options).certificates
    assert certificates is not None
    assert certificates.strip() == pem.strip()
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config: No matching CERTIFICATE"):
        settings_of({URL: "https://idp/keys"}, {**options, "ssl.truststore.certificates": "x"})


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "listener OUTSIDE: sasl.oauthbearer.jwks.endpoint.url is required"),
        ({URL: " "}, "jwks.endpoint.url is required"),
        ({URL: "ftp://idp/secret"}, "must be a URL with http, https or file"),
        ({URL: "idp/secret"}, "must be a URL"),
        ({URL: "http:///secret"}, "must be a URL"),
        ({URL: "http://idp:secret"}, "must be a URL"),
        ({URL: "http://[secret"}, "must be a URL"),
        ({URL: "file:"}, "must be a URL"),
        ({f"{PREFIX}sub.claim.name": " "}, "sub.claim.name must not be empty"),
        ({f"{PREFIX}scope.claim.name": ""}, "scope.claim.name must not be empty"),
        ({f"{PREFIX}jwks.endpoint.refresh.ms": "0"}, "refresh.ms must be positive"),
        ({f"{PREFIX}jwks.endpoint.retry.backoff.ms": "-1"}, "must be between 0 and"),
        ({f"{PREFIX}jwks.endpoint.retry.backoff.ms": "10001"}, "must be between 0 and"),
        ({f"{LISTENER}clock.skew.seconds": "x"}, "Not a number of type INT"),
    ],
)
def test_an_invalid_setting_is_refused(config: dict[str, str], reason: str) -> None:
    default = {} if config in ({}, {URL: config.get(URL)}) else {URL: "http://idp/keys"}
    with pytest.raises(ConfigError) as error:
        settings_of({**default, **config})
    assert reason in error.value.message
    assert "secret" not in error.value.message
    assert "\n" not in error.value.message


def validator_of(
    config: Mapping[str, str], reports: list[str] | None = None, worker: HeldWorker | None = None
) -> TokenValidator:
    return TokenValidator.open(
        settings_of(config),
        clock=ManualClock(),
        new_executor=lambda: worker or InlineExecutor(),
        report=(reports if reports is not None else []).append,
    )


def refusal_of(validator: TokenValidator, token: str) -> str:
    with pytest.raises(InvalidTokenError) as error:
        validator.validate(token, NOW_MS)
    return str(error.value)


def test_the_keys_of_a_file_verify_tokens(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(SIGNER.key_set)
    validator = validator_of({URL: path.as_uri()})
    assert validator.first_keys() is None
    assert validator.validate(SIGNER.token(), NOW_MS).principal == "alice"
    other = TokenSigner("ES256", "other")
    assert refusal_of(validator, other.token()).startswith("no key of the key set fits")
    path.unlink()
    assert refusal_of(validator, SIGNER.token()) == (
        f"the keys cannot be loaded: {path}: No such file or directory"
    )
    validator.close()


def test_a_missing_file_prevents_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        validator_of({URL: (tmp_path / "keys.json").as_uri()})


def test_downloaded_keys_verify_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    other = TokenSigner("ES256", "other")
    answers = [
        SIGNER.key_set,
        json.dumps({"keys": [SIGNER.public, other.public]}).encode(),
    ]
    urls = []

    def download(url: str, **_: object) -> bytes:
        urls.append(url)
        return answers.pop(0)

    monkeypatch.setattr(token_validator, "http_get", download)
    worker = HeldWorker()
    validator = validator_of({URL: "http://idp/keys"}, worker=worker)
    waiting = validator.first_keys()
    assert waiting is not None
    assert refusal_of(validator, SIGNER.token()) == (
        "the keys cannot be loaded: the download has not ended"
    )
    worker.run()
    assert waiting.is_resolved
    assert validator.validate(SIGNER.token(), NOW_MS).principal == "alice"
    # As in Kafka, a token with a new key is refused, and the next one is accepted.
    assert refusal_of(validator, other.token()).startswith("no key of the key set fits")
    worker.run()
    assert validator.validate(other.token(), NOW_MS).principal == "alice"
    assert urls == ["http://idp/keys", "http://idp/keys"]
    assert refusal_of(validator, TokenSigner("RS256", None).token()).startswith("no key")
    assert worker.jobs == []
    validator.close()


def test_a_missing_library_prevents_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    import_module = builtins.__import__

    def refuse(name: str, *arguments: Any) -> Any:  # noqa: ANN401 - of __import__
        if name.startswith("joserfc"):
            raise ModuleNotFoundError(name)
        return import_module(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigError, match=r"pip install 'kafkalite\[security\]'"):
        validator_of({URL: "http://idp/keys"})
