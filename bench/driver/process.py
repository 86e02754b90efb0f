"""A server process, and what the kernel says it used. Linux only: it reads /proc.

It starts and ends exactly one process, by its pid.
"""

import os
import socket
import subprocess
import time
from pathlib import Path

from .wire import Failed


class Server:
    """A running server; leave the `with` block and it is gone."""

    def __init__(self, command, stdin=None, stdout=subprocess.DEVNULL):
        self.child = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL)
        self.pid = self.child.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                pipe.close()
        self.child.terminate()
        try:
            self.child.wait(5)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def cpu_seconds(self):
        """User and system time of all threads so far.

        The same sum as utime + stime in /proc/PID/stat, but in nanoseconds: a
        flood is over within a few of the 10 ms ticks counted there.
        """
        return time.clock_gettime((~self.pid << 3) | CPUCLOCK_SCHED)

    def memory_kb(self, field):
        """`VmRSS` or `VmHWM`; None once the process has ended."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return None
        line = next((line for line in status.splitlines() if line.startswith(field + ":")), None)
        return int(line.split()[1]) if line else None

    def pin(self, cores):
        """Keeps all threads of the server on `cores`."""
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            os.sched_setaffinity(int(thread), cores)


class HttpServer(Server):
    """`PROGRAM http PORT`, on a free port of 127.0.0.1, listening."""

    def __init__(self, program):
        self.port = free_port()
        super().__init__([program.path, *(word.format(port=self.port) for word in program.serve)])
        try:
            self.await_listening(10)
        except Failed:
            self.end()
            raise

    def await_listening(self, seconds):
        # A trial connection would be the first thing the server allocates for,
        # so the kernel's table is asked instead.
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.child.poll() is not None:
                raise Failed(f"ended with status {self.child.returncode} instead of serving HTTP")
            if is_listening(self.port):
                return
            time.sleep(0.01)
        raise Failed(f"not listening within {seconds} s")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_listening(port):
    rows = (row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return any(row[1].endswith(f":{port:04X}") and row[3] == TCP_LISTEN for row in rows)


# From the kernel's posix-timers.h: the clock of a whole process, by its pid.
CPUCLOCK_SCHED = 2
# From the kernel's tcp_states.h, as /proc/net/tcp prints it.
TCP_LISTEN = "0A"
