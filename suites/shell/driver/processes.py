"""What runs on this machine, by /proc: who carries a mark, how much memory they hold, and how to end them.

A mark is a word that is nowhere else: a process carries it if its environment or its command line does.
"""

import os
import signal
import time

SELF = os.getpid()

# What the cases run. Their memory is their own, not the server's.
COMMANDS = {"sh", "bash", "dash", "head", "tr", "yes", "sleep", "cat", "setsid", "seq"}


def carrying(mark):
    """The pids of living processes that carry `mark`. A zombie carries nothing."""
    needle = mark.encode()
    return [
        pid for pid in all_pids() if pid != SELF and (needle in read(pid, "environ") or needle in read(pid, "cmdline"))
    ]


def nobody_carries(mark):
    """Looks twice: in the middle of an exec a process has no environment to see."""
    if carrying(mark):
        return False
    time.sleep(0.05)
    return not carrying(mark)


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def read(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def describe(pids):
    """For a message: each with its command line, shortened."""
    lines = [
        f"{pid} `{read(pid, 'cmdline').replace(bytes(1), b' ').decode(errors='replace').strip()[:60]}`"
        for pid in pids[:4]
    ]
    return ", ".join(lines) + (f" and {len(pids) - 4} more" if len(pids) > 4 else "")


def name(pid):
    return read(pid, "comm").decode(errors="replace").strip()


def arguments(pid):
    return read(pid, "cmdline").decode(errors="replace").split("\0")[:-1]


def exists(pid):
    return state(pid) not in ("", "Z", "X")


def state(pid):
    """One letter as ps shows it, or nothing."""
    tail = read(pid, "stat").rpartition(b")")[2].split()
    return tail[0].decode() if tail else ""


def parent(pid):
    tail = read(pid, "stat").rpartition(b")")[2].split()
    return int(tail[1]) if len(tail) > 1 else 0


def descendants(root):
    """The pids below `root`, without it."""
    parents = {pid: parent(pid) for pid in all_pids()}
    found, edge = [], [root]
    while edge:
        edge = [pid for pid, above in parents.items() if above in edge]
        found += edge
    return found


def memory_kib(server, mark):
    """The resident memory of the server and of its helpers, wherever they hang, without the commands it runs."""
    own = {server, *descendants(server), *carrying(mark)}
    return sum(resident_kib(pid) for pid in own if pid == server or name(pid) not in COMMANDS)


def resident_kib(pid):
    for line in read(pid, "status").splitlines():
        if line.startswith(b"VmRSS:"):
            return int(line.split()[1])
    return 0


def sweep(mark):
    """Kills whoever carries `mark`, until nobody does. Only the suite's own processes carry its marks."""
    deadline = time.monotonic() + 5
    while not nobody_carries(mark) and time.monotonic() < deadline:
        for pid in carrying(mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
    return carrying(mark)
