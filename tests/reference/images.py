"""The page of other Kafka images: their variables, scripts and tools, with their effect here."""

from __future__ import annotations

from kafkalite.docker.install import DIRECTORIES, PROPERTIES, SCRIPTS, links
from kafkalite.docker.programs import TOOLS
from kafkalite.docker.tools.absent import REASONS
from kafkalite.docker.variables import (
    BITNAMI_DEFAULTS,
    BITNAMI_MARKS,
    DATA_DIRECTORIES,
    IGNORED,
    KUBERNETES,
    OPTIONS,
    OTHER_IMAGES,
    PROPERTY_FILES,
    REMOVED_PROPERTIES,
    REPLICATION_PROPERTIES,
    SECRET_FILES,
    SECRETS_DIRECTORY,
    STORE_FILE_IMAGES,
    STORE_FILES,
    ZOOKEEPER,
    Image,
    StoreFile,
    variable_name,
)
from tests.reference.markdown import code, codes, page, sentence, table

_INTRODUCTION = """\
The image of kafkalite accepts the environments of these images, and has their scripts. [Use Docker
Compose](../how-to/compose.md#replace-a-kafka-image) describes how to replace one of them. An empty
variable has no effect. The image's own variables take precedence; the page [Command
line](cli.md#environment-variables-of-the-docker-image) lists them."""

_PROPERTIES = """\
`KAFKA_` and the name of a property set this property, and so does `KAFKA_CFG_` as in
`bitnami/kafka`. One underscore is a dot, two are an underscore, three are a hyphen:
`KAFKA_LISTENER_NAME_SASL__SSL_PLAIN_SASL_JAAS_CONFIG` sets
`listener.name.sasl_ssl.plain.sasl.jaas.config`. A backslash in a value has its effect in a
properties file. The page [Configurations](configurations.md) lists
the properties with their effect. A variable that is not the name of a property is reported in one
line, with names that resemble it, and has no effect. This is also the case in Kafka."""

_LISTENERS = """\
Without `KAFKA_LISTENERS`, the broker listens on the ports in `KAFKA_ADVERTISED_LISTENERS`; with
variables of `bitnami/kafka`, on port 9092 if only PLAINTEXT is advertised. The host name of the
container is advertised for an address without a host. Without any listener in the environment, the
listeners are those of the image of kafkalite: port 9092 for the host, 29092 for other
containers.

A listener `CONTROLLER` needs neither `KAFKA_CONTROLLER_LISTENER_NAMES` nor
`KAFKA_LISTENER_SECURITY_PROTOCOL_MAP`, as in `confluentinc/confluent-local`. If both are absent,
the names `CONTROLLER`, `PLAINTEXT` and `PLAINTEXT_HOST` are plaintext."""

_REFUSED = """\
The container does not start, and prints one line with the variable and valid values, if

- two variables contradict each other, such as `KAFKA_NODE_ID` and `KAFKA_BROKER_ID`;
- an advertised address has the host `0.0.0.0` or the port 0, so that no client can connect to it;
- an advertised host is not the name of a host: shell commands and placeholders in variables, such
  as `_{HOSTNAME_COMMAND}`, are not evaluated;
- a listener has no security protocol, or one that does not exist, or all listeners are those of
  controllers;
- a SASL mechanism is not served, such as GSSAPI;
- a setting is that of a listener that does not exist;
- a file with a password, a key store or login modules cannot be read, or the file with login
  modules has no section `KafkaServer`;
- the user of the container cannot write the data directory;
- a property in the list below has more replicas than there are nodes, and nothing says that other
  containers have them: set `KAFKALITE_PRIMARY` if they do, or `KAFKALITE_BROKERS` to the number of
  nodes of this container;
- a broker of ZooKeeper has an id from 2 to 9, and neither `KAFKALITE_PRIMARY` nor
  `KAFKALITE_BROKERS`: each of several containers would be a cluster of its own;
- `KAFKA_CONTROLLER_QUORUM_VOTERS` has several nodes, and other containers cannot connect to the
  host of the first one, such as `localhost`.

[Several containers](../how-to/compose.md#several-containers) describes clusters of several
containers. A container with `KAFKA_PROCESS_ROLES=controller` that belongs to none waits until it is
stopped."""

_FILES = """\
Properties in the first of these files that exists have the effect of variables; variables take
precedence. If one of these directories is a volume, the data is stored there unless
`KAFKA_LOG_DIRS` or `KAFKALITE_DATA_DIR` name another directory. Without such a volume, the data is
temporary. A new named volume belongs to the user of the image at the paths below; at other paths it
belongs to root, and the user of the container cannot write it."""

_SCRIPTS = """\
The scripts that start a broker are links to the entrypoint of the image, or files that test
libraries may change. Every user may write these files and directories. The user of the container is
10001 unless the compose file sets another one."""

_TOOLS = """\
These programs use kafkalite's own client. They print what Kafka's tools print, with their exit
status: the page [Kafka's tools](tools-scoreboard.md) has the command lines that a test compares.
`kafka-run-class` runs them by the names of their Java classes, also of those before Kafka 4. They
are in `/usr/bin`, `/usr/local/bin`, `/opt/kafka/bin` and
`/opt/bitnami/kafka/bin`, with and without `.sh`. An option that a tool does not have is an error
that lists the options it has.

`kafka-storage format` stores the id of the cluster and SCRAM users for the next start of the
broker, which formats its data directory. It refuses features and releases that a new cluster does
not have. `kafka-configs --zookeeper` adds SCRAM users before the start, too.

`nc` is in `/usr/bin`, for health checks such as `nc -z localhost 9092`. It has `-z`, `-v` and
`-w SECONDS`, and accepts several ports and ranges of ports. Its status is 0 if one of them is open.
bash connects to `/dev/tcp/localhost/9092` by itself.

`zookeeper-server-start` listens on `clientPort` of its file, by default 2181, so that start scripts
can wait for ZooKeeper. It answers `ruok` with `imok`, and ends other connections."""


def images_page() -> str:
    """Return the page of other Kafka images."""
    names = [image.value for image in Image]
    return page(
        "Kafka images",
        _INTRODUCTION,
        "\n".join(f"- `{name}`" for name in names),
        "## Properties",
        _PROPERTIES,
        "## Listeners",
        _LISTENERS,
        f"With a variable `KAFKA_CFG_…`, or one of {codes(BITNAMI_MARKS)}, these are defaults, as "
        "in `bitnami/kafka`:",
        table(("Property", "Default"), [(code(k), code(v)) for k, v in BITNAMI_DEFAULTS.items()]),
        "## Other variables",
        table(
            ("Variable", "Images", "Effect"),
            [
                (code(option.name), codes(image.value for image in option.images), option.effect)
                for option in OPTIONS
            ],
        ),
        f"With the suffix `_FILE`, {codes(SECRET_FILES)} are read from a file.",
        f"These name files in `{SECRETS_DIRECTORY}`, as in "
        f"{codes(image.value for image in STORE_FILE_IMAGES)}:",
        table(
            ("Variable", "Property"),
            [
                (
                    code(file.name),
                    f"{code(file.target)}: the {_part_of(file)} of the file",
                )
                for file in STORE_FILES
            ],
        ),
        "## Environments that are refused",
        _REFUSED,
        "\n".join(f"- `{variable_name(key)}`" for key in REPLICATION_PROPERTIES),
        "## Variables without effect",
        "These are not reported.",
        table(("Variables", "Reason"), [(code(row.pattern), row.reason) for row in IGNORED]),
        "Kubernetes adds variables for services whose names begin with kafka. They are not "
        f"reported: {codes(KUBERNETES)}, and `KAFKA_PORT` with an address.",
        f"One line reports all variables of ZooKeeper that are set: {codes(ZOOKEEPER)}.",
        "One line reports each of these:",
        table(
            ("Variable", "Reason"),
            [
                (code(variable_name(key)), reason)
                for key, reason in REMOVED_PROPERTIES.items()
                if reason
            ],
        ),
        "One line reports each of these, which other images read, and names the variable to set:",
        table(
            ("Variable", "Set"), [(code(name), code(other)) for name, other in OTHER_IMAGES.items()]
        ),
        "## Files",
        _FILES,
        "\n".join(f"- `{path}`" for path in PROPERTY_FILES),
        table(
            ("Volume", "Data directory"),
            [(code(mount), code(path)) for mount, path in DATA_DIRECTORIES],
        ),
        "## Scripts and directories",
        _SCRIPTS,
        "\n".join(
            f"- `{path}`"
            for path in sorted((*_start_scripts(), *SCRIPTS, *PROPERTIES, *DIRECTORIES))
        ),
        "## Tools",
        _TOOLS,
        "\n".join(f"- `{tool}`" for tool in TOOLS if tool not in REASONS),
        "These scripts of Kafka's distribution are not in the image. Each prints the reason, and "
        "has the status 1:",
        table(
            ("Script", "Reason"), [(code(name), sentence(text)) for name, text in REASONS.items()]
        ),
    )


def _part_of(file: StoreFile) -> str:
    return "content" if file.is_content else "path"


def _start_scripts() -> list[str]:
    return [path for path in links() if path.rpartition("/")[2].removesuffix(".sh") not in TOOLS]
