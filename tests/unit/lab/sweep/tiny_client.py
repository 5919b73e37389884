"""A program that sends requests to a cluster with nothing but the standard library.

It tries again after a lost connection if its argument is "careful".
"""

import os
import socket
import struct
import sys

REQUESTS = 2
attempts = 3 if sys.argv[1] == "careful" else 1
host, _, port = os.environ["KAFKA_BOOTSTRAP_SERVERS"].split(",")[0].rpartition(":")
for number in range(REQUESTS):
    for _attempt in range(attempts):
        with socket.create_connection((host, int(port))) as connection:
            body = struct.pack(">hhih4s", 18, 0, number, 4, b"tiny")  # ApiVersions v0
            connection.sendall(struct.pack(">i", len(body)) + body)
            if connection.recv(4):
                break
    else:
        sys.exit(f"request {number} has no answer")
