"""How the suite ends when somebody ends it: by unwinding, so that nothing is left behind."""

import signal
import sys

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def unwind_on_signals():
    for number in SIGNALS:
        signal.signal(number, unwind)


def unwind(*_):
    """The first signal ends the suite; the ones after it must not disturb the cleaning up."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    sys.exit("suites/attack: ended by a signal")
