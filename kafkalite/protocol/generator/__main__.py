"""`python -m kafkalite.protocol.generator`: write the files, print the number of changed ones."""

import sys

from kafkalite.protocol.generator.files import write

if __name__ == "__main__":
    sys.stdout.write(f"{write()} files changed\n")
