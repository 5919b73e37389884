"""A self-signed certificate for this machine, created by openssl."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.oracle.requirements import program, required

if TYPE_CHECKING:
    from pathlib import Path


class Certificates:
    """Certificate and key files in a directory."""

    def __init__(self, directory: Path) -> None:
        with required():
            openssl = program("openssl")
        self.chain = str(directory / "chain.pem")
        self.key = str(directory / "key.pem")
        self.locked_key = str(directory / "locked.pem")
        self.authority = self.chain
        names = "subjectAltName=IP:127.0.0.1,DNS:localhost"
        make = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        make += ["-subj", "/CN=localhost", "-addext", names, "-days", "2"]
        make += ["-keyout", self.key, "-out", self.chain]
        lock = ["ec", "-aes256", "-passout", "pass:secret", "-in", self.key]
        lock += ["-out", self.locked_key]
        for arguments in (make, lock):
            subprocess.run([openssl, *arguments], check=True, capture_output=True)
