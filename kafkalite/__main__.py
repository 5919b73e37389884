"""`python -m kafkalite` is `kafkalite`: the process begins here."""

import gc

# Nothing that starting makes is garbage, and to look for some takes a twentieth of a start. The
# broker lets the collector go on once it runs.
gc.disable()

from kafkalite.cli.main import main  # noqa: E402 - after the collector has stopped

if __name__ == "__main__":
    main()
