"""Ordinary users made up for a run. They have no name and no home; nothing else on the machine runs as one of them."""

import ctypes
import json
import os
import signal
import sys
import traceback

# Far above what adduser gives out, below the overflow uid.
ORDINARY = 64321
STRANGER = 64322
# Whose servers the cases of root start: another than the one who runs the suite at the same time.
OWNER = 64323

PR_SET_DUMPABLE = 4


def become_ordinary():
    """Gives up root for ever, in this process."""
    os.setgroups([])
    os.setresgid(ORDINARY, ORDINARY, ORDINARY)
    os.setresuid(ORDINARY, ORDINARY, ORDINARY)
    # Without this, /proc/self belongs to root after a change of user.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def popen_arguments(uid):
    """What makes `subprocess.Popen` start as this user."""
    return {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}


class Child:
    """Work in a process that has given up root for good."""

    def __init__(self, work):
        sys.stdout.flush()
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            self._work(work, writing)
        os.close(writing)
        self.pipe = os.fdopen(reading)

    def _work(self, work, writing):
        code = 1
        try:
            become_ordinary()
            with os.fdopen(writing, "w") as pipe:
                json.dump(work(), pipe)
            code = 0
        except SystemExit as ended:
            print(ended, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)

    def result(self):
        text = self.pipe.read()
        os.waitpid(self.pid, 0)
        if not text:
            sys.exit("suites/attack: the pass as an ordinary user broke off")
        return json.loads(text)

    def end(self):
        """Has it clean up after itself, too."""
        try:
            os.kill(self.pid, signal.SIGTERM)
            os.waitpid(self.pid, 0)
        except OSError:
            pass
