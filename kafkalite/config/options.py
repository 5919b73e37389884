"""The options of a broker, each defined once.

The command line (`kafkalite serve`), the arguments of `kafkalite.testing.Broker`, the options of
the pytest plugin, the environment variables of the Docker image and the reference page are made
from this table. It is a table of named tuples because the start of a broker imports it: dataclasses
would be slower to import.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE_PREFIX: Final = "KAFKALITE_"
"""The first part of the name of each environment variable."""

DEFAULT_CONTROL_HOST: Final = "127.0.0.1"
DEFAULT_CONTROL_PORT: Final = 9097
DEFAULT_OIDC_PORT: Final = 9098
DEFAULT_OIDC: Final = f"{DEFAULT_CONTROL_HOST}:{DEFAULT_OIDC_PORT}"
"""The address of the identity provider if `--oidc` has no value."""
DEFAULT_CONTROL: Final = f"{DEFAULT_CONTROL_HOST}:{DEFAULT_CONTROL_PORT}"
"""The address of the control API if `--control` has no value."""
CONTROL_TOKEN_AUTO: Final = "auto"  # noqa: S105 - not a token
"""The value of `--control-token` for a token that the broker generates."""
CONTROL_TLS_ON: Final = "on"
CONTROL_TLS_OFF: Final = "off"

MAX_BROKERS: Final = 1000
MAX_NODE_ID: Final = 2**31 - 1
_MAX_LOGGED_REQUESTS: Final = 1_000_000
MAX_SEED: Final = 2**63 - 1
_SIZE_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_MIN_MEMORY_BYTES: Final = 1024 * 1024
IN_MEMORY: Final = "memory"
ON_DISK: Final = "disk"
_MIN_FILE_BYTES: Final = 64 * 1024
_MAX_RECORD_BYTES: Final = 1024**3


class Keyword(NamedTuple):
    """An argument of `kafkalite.testing.Broker`.

    `is_for_fixtures` says whether the brokers of the pytest plugin take it from an option.
    """

    name: str
    default: object = None
    is_for_fixtures: bool = True


class Variable(NamedTuple):
    """An environment variable of the Docker image.

    `separator` is a regular expression that divides the values of a repeatable option.
    """

    name: str
    example: str
    separator: str | None = None


class Option(NamedTuple):
    """An option of a broker.

    `flag` is its name on the command line, None if it is an argument in Python only. `parse`
    converts the text of one value; it raises ValueError for invalid text. `implied` is the value
    if the flag is given without a value. The help prints `shown_default` in place of `default`.
    `keyword` and `variable` are its names in Python and in the Docker image, None if it has none.
    `former_flag` is an earlier name on the command line, which is accepted but not shown.
    """

    section: str
    flag: str | None
    help: str
    metavar: str | None = None
    parse: Callable[[str], object] | None = None
    choices: tuple[str, ...] = ()
    default: str | int | None = None
    shown_default: str | None = None
    implied: str | None = None
    is_repeatable: bool = False
    is_switch: bool = False
    keyword: Keyword | None = None
    variable: Variable | None = None
    former_flag: str | None = None

    @property
    def name(self) -> str:
        """The flag without its dashes, else the name in Python."""
        if self.flag is not None:
            return self.flag.removeprefix("--")
        return "" if self.keyword is None else self.keyword.name

    @property
    def dest(self) -> str:
        """The name of the attribute with the value in the result of argparse."""
        return self.name.replace("-", "_")

    @property
    def help_text(self) -> str:
        """The help, with the default in brackets."""
        return f"{self.help} [{self.default_text}]" if self.default_text else self.help

    @property
    def default_text(self) -> str:
        """The default as the help shows it, empty if there is none."""
        default = self.default if self.shown_default is None else self.shown_default
        return "" if default is None else str(default)


def _parse_number(minimum: int, maximum: int, text: str) -> int:
    if not text.isascii() or not text.isdigit() or not minimum <= int(text) <= maximum:
        raise ValueError(f"{text!r} is not a number from {minimum} to {maximum}")
    return int(text)


def _parse_file_size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,12})([kmg]?)", text, re.ASCII | re.IGNORECASE)
    size = int(match[1]) * _SIZE_UNITS[match[2].lower()] if match else 0
    if size < _MIN_FILE_BYTES:
        raise ValueError(f"{text!r} is not a size of 64k or more, such as 64m")
    return size


def parse_memory_size(text: str) -> int:
    """Return a size such as "512m" in bytes; raises ValueError below 1 MiB."""
    match = re.fullmatch(r"([0-9]{1,12})([kmg]?)", text, re.ASCII | re.IGNORECASE)
    size = int(match[1]) * _SIZE_UNITS[match[2].lower()] if match else 0
    if size < _MIN_MEMORY_BYTES:
        raise ValueError(f"{text!r} is not a size of 1m or more, such as 512m or 4g")
    return size


def _parse_record_bytes(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text) <= _MAX_RECORD_BYTES:
        raise ValueError(f"{text!r} is not a number of bytes")
    return int(text)


def _parse_seconds(text: str) -> float:
    match = re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,3})?", text, re.ASCII)
    if not match or not float(text):
        raise ValueError(f"{text!r} is not a number of seconds")
    return float(text)


def _parse_tls(text: str) -> str:
    mode, colon, directory = text.partition(":")
    if mode != "auto" or (colon and not directory):
        raise ValueError(f"{text!r}: write auto or auto:DIR")
    return text


CONTROL_TOKEN_FORMAT: Final = r"[A-Za-z0-9._~+/-]{8,1024}={0,2}"  # noqa: S105 - a pattern
"""The characters of bearer tokens in RFC 6750."""
_FORMAT_REASON: Final = (
    "a token has 8 to 1024 letters, digits or characters of - . _ ~ + /; write TOKEN, @FILE for a "
    "file with the token in its first line, or auto"
)
"""Why a token is invalid; the text does not have the token, because logs may have the text."""


def _parse_control_token(text: str) -> str:
    is_file = len(text) > 1 and text.startswith("@")
    if not is_file and text != CONTROL_TOKEN_AUTO and not re.fullmatch(CONTROL_TOKEN_FORMAT, text):
        raise ValueError(_FORMAT_REASON)
    return text


_HTTP_URL: Final = (
    r"https?://(?:[^@/?#\s]+@)?(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[^?#\s]*)?"
)


def _parse_registry_url(text: str) -> str:
    if not re.fullmatch(_HTTP_URL, text, re.ASCII):
        shown = re.sub(r"//[^@/]*@", "//", text)  # without the password
        raise ValueError(
            f"{shown[:200]!r} is no URL of a schema registry: write http://HOST:PORT, with a user "
            "as http://USER:PASSWORD@HOST:PORT"
        )
    return text


_SPACE_OR_COMMA: Final = r"[\s,]+"
_SEMICOLON_OR_NEWLINE: Final = r"[;\n]"

_NODES_SECTION: Final = "Nodes and listeners"
_DATA_SECTION: Final = "Data and broker configuration"
_SECURITY_SECTION: Final = "Security"
_CLOCK_SECTION: Final = "Clock and control"
_RECORDING_SECTION: Final = "Recording of traffic"
_STAND_IN_SECTION: Final = "Stand-in for a recorded cluster"
_LOGGING_SECTION: Final = "Logging"

LISTEN: Final = Option(
    _NODES_SECTION,
    "--listen",
    "listen on this address; repeatable; port 0 selects a free port",
    "[NAME://]HOST:PORT",
    shown_default="localhost:9092",
    is_repeatable=True,
    variable=Variable(
        "KAFKALITE_LISTEN", "INSIDE://0.0.0.0:29092,OUTSIDE://0.0.0.0:9092", _SPACE_OR_COMMA
    ),
)
ADVERTISE: Final = Option(
    _NODES_SECTION,
    "--advertise",
    "return this address to clients of the listener NAME; an address without NAME is that of the "
    "first listener for which no other address is advertised; repeatable",
    "[NAME://]HOST:PORT",
    shown_default="the address of the listener",
    is_repeatable=True,
    variable=Variable(
        "KAFKALITE_ADVERTISE", "INSIDE://kafkalite:29092,OUTSIDE://localhost:9092", _SPACE_OR_COMMA
    ),
)
CONTROLLER_LISTEN: Final = Option(
    _NODES_SECTION,
    "--controller-listen",
    "listen on this address for clients of the controller, such as tools with "
    "--bootstrap-controller",
    "HOST:PORT",
    shown_default="off",
    variable=Variable("KAFKALITE_CONTROLLER_LISTEN", "0.0.0.0:9093"),
)
PORT: Final = Option(
    _NODES_SECTION,
    None,
    "port of the first node on 127.0.0.1; each further node uses the next port; 0 selects free "
    "ports",
    keyword=Keyword("port", 0, is_for_fixtures=False),
)
TLS: Final = Option(
    _NODES_SECTION,
    "--tls",
    "make certificates for the listeners with SSL or SASL_SSL: of an authority, of the broker and "
    "of a client; in the directory DIR, in the data directory or in a temporary directory",
    "auto[:DIR]",
    _parse_tls,
    shown_default="off",
    variable=Variable("KAFKALITE_TLS", "auto:/var/lib/kafkalite"),
)
SECURITY: Final = Option(
    _NODES_SECTION,
    None,
    "security protocol of the listener, which is also its name; with SSL, certificates are made",
    choices=tuple(SecurityProtocol.__members__),
    keyword=Keyword("security", "PLAINTEXT"),
)
BROKERS: Final = Option(
    _NODES_SECTION,
    "--brokers",
    "number of nodes; each node listens on the port after that of the previous node",
    "NUMBER",
    partial(_parse_number, 1, MAX_BROKERS),
    default=1,
    keyword=Keyword("brokers", 1),
    variable=Variable("KAFKALITE_BROKERS", "3"),
)
CONTROLLER_ID: Final = Option(
    _NODES_SECTION,
    "--controller-id",
    "id of a controller that is no broker, as in a cluster with separate controllers",
    "ID",
    partial(_parse_number, 0, MAX_NODE_ID),
    shown_default="the id of the broker that acts as controller",
    keyword=Keyword("controller_id"),
    variable=Variable("KAFKALITE_CONTROLLER_ID", "3000"),
)
DATA_DIRECTORY: Final = Option(
    _DATA_SECTION,
    "--data-dir",
    "store all data in this directory, across restarts",
    "DIR",
    shown_default="a temporary directory",
    keyword=Keyword("data_directory", is_for_fixtures=False),
    variable=Variable("KAFKALITE_DATA_DIR", "/var/lib/kafkalite"),
)
MEMORY: Final = Option(
    _DATA_SECTION,
    "--memory",
    "keep all data in memory, as long as the process runs",
    shown_default="on disk",
    is_switch=True,
    variable=Variable("KAFKALITE_MEMORY", "true"),
)
STORAGE: Final = Option(
    _DATA_SECTION,
    None,
    "where the data is: on disk, or in memory; the fixtures of the pytest plugin use memory unless "
    "disk is given",
    choices=(ON_DISK, IN_MEMORY),
    shown_default=ON_DISK,
    keyword=Keyword("storage"),
)
MEMORY_LIMIT: Final = Option(
    _DATA_SECTION,
    "--memory-limit",
    "refuse records when the data in memory reaches this size, such as 512m or 4g",
    "SIZE",
    parse_memory_size,
    shown_default="half of the memory of the machine or container",
    keyword=Keyword("memory_limit"),
    variable=Variable("KAFKALITE_MEMORY_LIMIT", "4g"),
)
CLUSTERS: Final = Option(
    _NODES_SECTION,
    "--clusters",
    "serve several clusters on the ports of one: a client names its cluster by the first part of "
    "its client id, such as worker-3/, or by the first label of the host name in its TLS handshake "
    "(sni); a cluster is started when its first client connects",
    choices=("client-id", "sni"),
    shown_default="one cluster",
    keyword=Keyword("clusters", is_for_fixtures=False),
    variable=Variable("KAFKALITE_CLUSTERS", "client-id"),
)
MAX_CLUSTERS: Final = Option(
    _NODES_SECTION,
    "--max-clusters",
    "with --clusters: start no cluster for a client if there are this many",
    "NUMBER",
    partial(_parse_number, 0, 1_000),
    default=100,
    variable=Variable("KAFKALITE_MAX_CLUSTERS", "20"),
)
CLUSTER_IDLE_TIMEOUT: Final = Option(
    _NODES_SECTION,
    "--cluster-idle-timeout",
    "stop another cluster of this process when no client has been connected to it for this time",
    "SECONDS",
    partial(_parse_number, 1, 604_800),
    shown_default="it runs until it is stopped",
    variable=Variable("KAFKALITE_CLUSTER_IDLE_TIMEOUT", "600"),
)
CLUSTER_MEMORY_LIMIT: Final = Option(
    _DATA_SECTION,
    "--cluster-memory-limit",
    "refuse records of another cluster in this process when its own data in memory reaches this "
    "size",
    "SIZE",
    parse_memory_size,
    shown_default="a quarter of the limit for all of them together",
    variable=Variable("KAFKALITE_CLUSTER_MEMORY_LIMIT", "64m"),
)
KEEP_HISTORY: Final = Option(
    _DATA_SECTION,
    "--keep-history",
    "do not compact internal topics, so that earlier states of groups and transactions are known",
    shown_default="they are compacted",
    is_switch=True,
    keyword=Keyword("keep_history", default=False),
    variable=Variable("KAFKALITE_KEEP_HISTORY", "true"),
)
SNAPSHOT: Final = Option(
    _DATA_SECTION,
    "--snapshot",
    "begin with the snapshot in this file, with its settings, and keep all data in memory",
    "FILE",
    shown_default="a new cluster",
    keyword=Keyword("snapshot", is_for_fixtures=False),
    variable=Variable("KAFKALITE_SNAPSHOT", "/data/orders.zip"),
)
CLUSTER_ID: Final = Option(
    _DATA_SECTION,
    "--cluster-id",
    "id of a new cluster, as kafka-storage random-uuid prints it",
    "ID",
    shown_default="a random id",
    variable=Variable("KAFKALITE_CLUSTER_ID", "5L6g3nShT-eMCtK--X86sw"),
)
TOPIC: Final = Option(
    _DATA_SECTION,
    "--topic",
    "create this topic at startup; repeatable",
    "NAME:PARTITIONS",
    is_repeatable=True,
    keyword=Keyword("topics"),
    variable=Variable("KAFKALITE_TOPICS", "orders:3,audit:1", _SPACE_OR_COMMA),
)
CONFIG: Final = Option(
    _DATA_SECTION,
    "--config",
    "set a Kafka broker configuration; repeatable; takes precedence over --properties",
    "KEY=VALUE",
    is_repeatable=True,
    keyword=Keyword("config"),
    variable=Variable(
        "KAFKALITE_CONFIG", "num.partitions=3;log.retention.ms=60000", _SEMICOLON_OR_NEWLINE
    ),
)
NODE_CONFIG: Final = Option(
    _DATA_SECTION,
    "--node-config",
    "set a Kafka broker configuration of one node, such as broker.rack; repeatable; takes "
    "precedence over --config and --properties",
    "ID:KEY=VALUE",
    is_repeatable=True,
    keyword=Keyword("node_config"),
    variable=Variable(
        "KAFKALITE_NODE_CONFIG", "1:broker.rack=a;2:broker.rack=b", _SEMICOLON_OR_NEWLINE
    ),
)
PROPERTIES: Final = Option(
    _DATA_SECTION,
    "--properties",
    "read Kafka broker configurations from this file",
    "FILE",
    variable=Variable("KAFKALITE_PROPERTIES", "/etc/kafkalite.properties"),
)
SCENARIO: Final = Option(
    _DATA_SECTION,
    "--scenario",
    "begin with the topics, settings, clock, seed, faults and links of this YAML file; other "
    "options have precedence",
    "FILE",
    keyword=Keyword("scenario", is_for_fixtures=False),
    variable=Variable("KAFKALITE_SCENARIO", "/etc/scenario.yaml"),
)
STATE: Final = Option(
    _DATA_SECTION,
    "--state",
    "begin with the topics, records, groups, ACLs, users and quotas of this YAML or JSON file; the "
    "data directory must be empty, or have this state from an earlier start",
    "FILE",
    keyword=Keyword("state", is_for_fixtures=False),
    variable=Variable("KAFKALITE_STATE", "/etc/state.yaml"),
)
AS_VERSION: Final = Option(
    _DATA_SECTION,
    "--as-version",
    "emulate this release of Kafka, 3.3 to 4.4: its APIs, their versions and its features; or a "
    "service: msk-serverless, eventhubs, confluent-cloud, redpanda",
    "X.Y|SERVICE",
    shown_default="4.4, and request versions that older clients need",
    keyword=Keyword("as_version"),
    variable=Variable("KAFKALITE_AS_VERSION", "3.9"),
)
DEFAULTS: Final = Option(
    _DATA_SECTION,
    "--defaults",
    "defaults of broker configurations: for tests (kafkalite), or as in Kafka (kafka)",
    choices=("kafkalite", "kafka"),
    default="kafkalite",
    keyword=Keyword("defaults", "kafkalite"),
    variable=Variable("KAFKALITE_DEFAULTS", "kafka"),
)
PACE: Final = Option(
    _DATA_SECTION,
    "--pace",
    "complete transactions, create topics and find coordinators as late as a real Kafka (kafka), "
    "so that clients have to retry",
    choices=("kafka",),
    shown_default="at once",
    keyword=Keyword("pace"),
    variable=Variable("KAFKALITE_PACE", "kafka"),
)
USER: Final = Option(
    _SECURITY_SECTION,
    "--user",
    "let this user authenticate on listeners with SASL, by SCRAM-SHA-512, SCRAM-SHA-256 and PLAIN "
    "unless MECHANISM is one of them; repeatable",
    "NAME:PASSWORD[:MECHANISM]",
    is_repeatable=True,
    keyword=Keyword("users"),
    variable=Variable(
        "KAFKALITE_USERS", "alice:secret;bob:secret:SCRAM-SHA-256", _SEMICOLON_OR_NEWLINE
    ),
)
JAAS: Final = Option(
    _SECURITY_SECTION,
    "--jaas",
    "read the users of listeners with SASL from this JAAS file of a broker, as with "
    "-Djava.security.auth.login.config in KAFKA_OPTS",
    "FILE",
    shown_default="the file that KAFKA_OPTS names",
    variable=Variable("KAFKALITE_JAAS", "/etc/kafka/jaas.conf"),
)
OIDC: Final = Option(
    _SECURITY_SECTION,
    "--oidc",
    "serve an identity provider (token endpoint, JWKS, discovery) over HTTP on this address, and "
    "let clients authenticate with its tokens by OAUTHBEARER; port 0 selects a free port; without "
    "--listen, the listener is SASL_PLAINTEXT, or SASL_SSL with --tls",
    "[HOST:]PORT",
    implied=DEFAULT_OIDC,
    shown_default=f"off; {DEFAULT_OIDC} if no address is given",
    keyword=Keyword("oidc", default=False),
    variable=Variable("KAFKALITE_OIDC", "0.0.0.0:9098"),
)
OIDC_CLIENT: Final = Option(
    _SECURITY_SECTION,
    "--oidc-client",
    "let this client request tokens with --oidc; repeatable",
    "ID:SECRET",
    shown_default="kafkalite:kafkalite-secret",
    is_repeatable=True,
    keyword=Keyword("oidc_clients"),
    variable=Variable(
        "KAFKALITE_OIDC_CLIENTS", "billing:secret;audit:secret", _SEMICOLON_OR_NEWLINE
    ),
)
CONTROL: Final = Option(
    _CLOCK_SECTION,
    "--control",
    "serve the control API (clock, faults, explain, health) over HTTP on this address; port 0 "
    "selects a free port",
    "[HOST:]PORT",
    implied=DEFAULT_CONTROL,
    shown_default=f"off; {DEFAULT_CONTROL} if no address is given",
    keyword=Keyword("control", default=False, is_for_fixtures=False),
    variable=Variable("KAFKALITE_CONTROL", "0.0.0.0:9097"),
)
CONTROL_TOKEN: Final = Option(
    _CLOCK_SECTION,
    "--control-token",
    "accept only requests with this bearer token at the control API; auto generates one and stores "
    "it in the file control-token of the data directory",
    "TOKEN|@FILE|auto",
    _parse_control_token,
    shown_default="none on a loopback address, else auto",
    keyword=Keyword("control_token", is_for_fixtures=False),
    variable=Variable("KAFKALITE_CONTROL_TOKEN", "@/run/secrets/control-token"),
)
CONTROL_TLS: Final = Option(
    _CLOCK_SECTION,
    "--control-tls",
    "serve the control API over https, with the certificate of the first listener with TLS",
    choices=(CONTROL_TLS_ON, CONTROL_TLS_OFF),
    shown_default="on if a listener has TLS",
    keyword=Keyword("control_tls", is_for_fixtures=False),
    variable=Variable("KAFKALITE_CONTROL_TLS", "off"),
)
SCHEMA_REGISTRY_URL: Final = Option(
    _CLOCK_SECTION,
    "--schema-registry-url",
    "let the console show keys and values by the schemas of this registry, which has the API of "
    "Confluent's",
    "URL",
    _parse_registry_url,
    shown_default="none",
    variable=Variable("KAFKALITE_SCHEMA_REGISTRY_URL", "http://schema-registry:8081"),
)
REQUEST_LOG: Final = Option(
    _CLOCK_SECTION,
    "--request-log",
    "log the latest requests from the start, this many, for `kafkalite requests`",
    "NUMBER",
    partial(_parse_number, 1, _MAX_LOGGED_REQUESTS),
    shown_default="10000, from the first command about requests on",
    keyword=Keyword("request_log"),
    variable=Variable("KAFKALITE_REQUEST_LOG", "10000"),
)
SEED: Final = Option(
    _CLOCK_SECTION,
    "--seed",
    "number from which all random values follow, such as ids, so that a history repeats",
    "NUMBER",
    partial(_parse_number, 0, MAX_SEED),
    shown_default="other values in each run",
    keyword=Keyword("seed"),
    variable=Variable("KAFKALITE_SEED", "42"),
)
CLOCK: Final = Option(
    _CLOCK_SECTION,
    "--clock",
    "clock at startup: real, manual (stopped until advanced), accelerated by a factor, such as "
    "60x, or auto (moved while all clients wait); TIME is the time at which it starts",
    "MODE[@TIME]",
    default="real",
    keyword=Keyword("clock", "real"),
    variable=Variable("KAFKALITE_CLOCK", "manual"),
)
CAPTURE: Final = Option(
    _RECORDING_SECTION,
    "--capture",
    "record all traffic in this directory, as pcapng files that Wireshark reads",
    "DIR",
    shown_default="off",
    keyword=Keyword("capture"),
    variable=Variable("KAFKALITE_CAPTURE", "/var/lib/kafkalite/captures"),
)
KEEP_SECRETS: Final = Option(
    _RECORDING_SECTION,
    "--keep-secrets",
    "record passwords and tokens as they are",
    shown_default="overwritten",
    is_switch=True,
)
TRUNCATE_RECORDS: Final = Option(
    _RECORDING_SECTION,
    "--truncate-records",
    "record at most this many bytes of each record's key, value and header values",
    "BYTES",
    _parse_record_bytes,
    shown_default="all",
    former_flag="--snap-records",
)
ROTATE_BYTES: Final = Option(
    _RECORDING_SECTION,
    "--rotate-bytes",
    "start a new capture file at this size, such as 500k, 64m or 1g",
    "SIZE",
    _parse_file_size,
    shown_default="64m",
)
ROTATE_SECONDS: Final = Option(
    _RECORDING_SECTION,
    "--rotate-seconds",
    "start a new capture file after this time",
    "SECONDS",
    _parse_seconds,
    shown_default="never",
)
REPLAY: Final = Option(
    _STAND_IN_SECTION,
    "--replay",
    "answer as the cluster in this capture, a file or a directory; repeatable",
    "DIR",
    shown_default="off",
    is_repeatable=True,
    keyword=Keyword("replay"),
)
MATCH: Final = Option(
    _STAND_IN_SECTION,
    "--match",
    "with --replay: match requests by their position on a connection (strict) or by their content "
    "(lenient), or load topics, records and commits of the capture and then answer live (seeded)",
    choices=("strict", "lenient", "seeded"),
    shown_default="strict",
    keyword=Keyword("match", "strict"),
)
ON_MISS: Final = Option(
    _STAND_IN_SECTION,
    "--on-miss",
    "with --replay: if the capture has no response to a request, close the connection (fail) or "
    "let the live broker answer (live)",
    choices=("fail", "live"),
    shown_default="fail",
    keyword=Keyword("on_miss", "fail"),
)
LOG_FORMAT: Final = Option(
    _LOGGING_SECTION,
    "--log-format",
    "format of log lines on stderr",
    choices=("console", "json"),
    default="console",
    variable=Variable("KAFKALITE_LOG_FORMAT", "json"),
)
LOG_LEVEL: Final = Option(
    _LOGGING_SECTION,
    "--log-level",
    "write log lines of this level and higher levels",
    choices=("debug", "info", "warning", "error"),
    default="info",
    keyword=Keyword("log_level", "warning"),
    variable=Variable("KAFKALITE_LOG_LEVEL", "debug"),
)

RECORDING_OPTIONS: Final = (KEEP_SECRETS, TRUNCATE_RECORDS, ROTATE_BYTES, ROTATE_SECONDS)
"""Options for recording traffic; every command that can record has them."""
STAND_IN_OPTIONS: Final = (REPLAY, MATCH, ON_MISS)
LOGGING_OPTIONS: Final = (LOG_FORMAT, LOG_LEVEL)

OPTIONS: Final = (
    LISTEN,
    ADVERTISE,
    CONTROLLER_LISTEN,
    TLS,
    PORT,
    SECURITY,
    BROKERS,
    CONTROLLER_ID,
    CLUSTERS,
    MAX_CLUSTERS,
    CLUSTER_IDLE_TIMEOUT,
    DATA_DIRECTORY,
    MEMORY,
    STORAGE,
    MEMORY_LIMIT,
    CLUSTER_MEMORY_LIMIT,
    KEEP_HISTORY,
    SNAPSHOT,
    CLUSTER_ID,
    TOPIC,
    CONFIG,
    NODE_CONFIG,
    PROPERTIES,
    SCENARIO,
    STATE,
    AS_VERSION,
    DEFAULTS,
    PACE,
    USER,
    JAAS,
    OIDC,
    OIDC_CLIENT,
    CONTROL,
    CONTROL_TOKEN,
    CONTROL_TLS,
    SCHEMA_REGISTRY_URL,
    REQUEST_LOG,
    CLOCK,
    SEED,
    CAPTURE,
    *RECORDING_OPTIONS,
    *STAND_IN_OPTIONS,
    *LOGGING_OPTIONS,
)
"""All options, in the order of the help."""
