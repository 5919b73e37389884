"""The asyncio shell of a cluster: sockets, connections, scheduling, maintenance and logs."""
