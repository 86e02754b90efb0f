"""Servers that a case starts: `lmcp serve` on HTTP and a unix socket, or on stdio."""

import re
import signal
import subprocess
import time

from driver import processes, wire
from driver.stdio import Stdio

from . import machine
from .http import Caller, Session
from .lines import Lines
from .reply import Reply
from .users import popen_arguments


class Server:
    """`lmcp serve` in the background, with what it says on stderr in a file."""

    def __init__(self, command, env, mark, folder, uid=None):
        self.mark = mark
        self.said = folder / f"stderr-{mark}"
        self.port = self.socket = None
        self.has_tokens = False
        with open(self.said, "wb") as stderr:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=env,
                start_new_session=True,
                **popen_arguments(uid),
            )

    @property
    def pid(self):
        return self.process.pid

    def wait_until_it_listens(self, wants_port, wants_socket, seconds=30):
        """Learns the addresses from what the server says at its start."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            log = self.log()
            port = re.search(r"listening on http://[^\s]*:(\d+)/", log)
            path = re.search(r"listening on (/.*\.sock)", log)
            if (port or not wants_port) and (path or not wants_socket):
                self.port = int(port[1]) if port else None
                self.socket = path[1] if path else None
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise wire.NoAnswer(f"the server does not start: {self.log()[-300:]}")

    def caller(self, token=None, seconds=60):
        return Caller(self.port, token, seconds)

    def session(self, token=None, capabilities=None, seconds=60):
        return Session(self.port, token, capabilities, seconds)

    def lines(self, era=wire.MODERN):
        return Unix(Lines(self.socket, era))

    def log(self):
        return self.said.read_text(errors="replace")

    def is_alive(self):
        return self.process.poll() is None

    def come_to_rest(self, seconds=60, rest=0.5):
        """Waits until the server has done what it can do now, as it uses no processor for a while; at most so many seconds."""
        deadline = time.monotonic() + seconds
        used, since = machine.processor_ticks(self.pid), time.monotonic()
        while time.monotonic() < min(deadline, since + rest) and self.is_alive():
            time.sleep(0.05)
            now = machine.processor_ticks(self.pid)
            if now != used:
                used, since = now, time.monotonic()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self, number=signal.SIGTERM, seconds=10):
        """Asks it to end. Its exit code, or None if it did not."""
        self.process.send_signal(number)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def close(self):
        if self.is_alive() and self.end(seconds=3) is None:
            self.kill()
        processes.sweep(self.mark)


class Tools:
    """Calls of tools over a connection that carries lines."""

    def __init__(self, connection):
        self.connection = connection

    def begin(self, tool, **arguments):
        return self.connection.request("tools/call", {"name": tool, "arguments": arguments})

    def call(self, tool, **arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def ask(self, method, params, seconds=60):
        return Reply(self.connection.request(method, params).wait(time.monotonic() + seconds))

    def close(self):
        self.connection.close()


class Unix(Tools):
    """A client on a unix socket."""


class StdioServer(Tools):
    """A server, or a proxy, that is a child of this suite and speaks on its stdin and stdout."""

    def __init__(self, command, env, mark, era=wire.MODERN):
        super().__init__(Stdio(command, era, env, mark))
        self.mark = mark
        self.connection.handshake(time.monotonic() + 30)

    @property
    def pid(self):
        return self.connection.pid

    def is_alive(self):
        return self.connection.process.poll() is None

    def kill(self):
        self.connection.process.kill()
        self.connection.process.wait()
