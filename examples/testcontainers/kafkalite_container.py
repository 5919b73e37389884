"""A module of Testcontainers: a kafkalite container with topics, options and commands.

with KafkaliteContainer(topics={"orders": 3}) as kafka:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

Needs `pip install 'testcontainers>=4.13'` and the image:
`docker build -f docker/Dockerfile -t kafkalite .`
"""

from __future__ import annotations

from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

PORT = 9092
START = """
while [ ! -s /tmp/address ]; do sleep 0.05; done
export KAFKALITE_ADVERTISE="OUTSIDE://$(cat /tmp/address),INSIDE://$(hostname):29092"
exec kafkalite-entrypoint
"""
"""The port on the host is known after the start of the container; the broker starts with it."""


class KafkaliteContainer(DockerContainer):
    """A broker. Containers of the same network reach it at its network alias, port 29092."""

    def __init__(self, image: str = "kafkalite", topics: dict[str, int] | None = None) -> None:
        super().__init__(image)
        self.with_exposed_ports(PORT)
        self.with_env("KAFKALITE_CONTROL", "127.0.0.1:9097")
        if topics:
            pairs = (f"{name}:{partitions}" for name, partitions in topics.items())
            self.with_env("KAFKALITE_TOPICS", ",".join(pairs))
        self.with_command(["sh", "-c", START])

    @property
    def bootstrap_servers(self) -> str:
        """Return the address for clients on the host."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(PORT)}"

    def start(self) -> KafkaliteContainer:
        """Start the container, and wait until the broker has its topics."""
        super().start()
        self.exec(["sh", "-c", f"echo {self.bootstrap_servers} > /tmp/address"])
        ready = LogMessageWaitStrategy("kafkalite is ready")
        ready.with_startup_timeout(30).wait_until_ready(self)
        return self

    def run(self, *arguments: str) -> str:
        """Run a command of kafkalite in the container, such as `clock advance 7d`."""
        result = self.exec(["kafkalite", *arguments])
        if result.exit_code:
            raise RuntimeError(result.output.decode())
        return result.output.decode()
