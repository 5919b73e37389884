"""The start of the process of `kafkalite` and of `python -m kafkalite`."""

import gc
import sys

# The start of a broker makes no garbage, and looking for garbage takes 5 % of its time. It enables
# the collector when it has started.
if sys.argv[1:2] == ["serve"]:
    gc.disable()

from kafkalite.ports.compiled_modules import find_compiled_modules_fast

find_compiled_modules_fast("kafkalite")

import signal  # noqa: E402 - found by the new finder

# Ctrl-C during the imports ends the process without a traceback. A process that ignores the signal,
# such as one in the background, continues to do so.
_interrupt = signal.getsignal(signal.SIGINT)
if _interrupt is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from kafkalite.cli.main import main  # noqa: E402 - after the changes above

signal.signal(signal.SIGINT, _interrupt)

if __name__ == "__main__":
    main()
