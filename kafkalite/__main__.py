"""`python -m kafkalite` is `kafkalite`: the process begins here."""

import gc
import signal

# Nothing that starting makes is garbage, and to look for some takes a twentieth of a start. The
# broker lets the collector go on once it runs.
gc.disable()

# Ctrl-C before anything has begun just ends; who ignores it, as in the background, does so still.
_interrupt = signal.getsignal(signal.SIGINT)
if _interrupt is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from kafkalite.cli.main import main  # noqa: E402 - after the collector has stopped

signal.signal(signal.SIGINT, _interrupt)

if __name__ == "__main__":
    main()
