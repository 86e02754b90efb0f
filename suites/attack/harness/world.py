"""What a case is given: a folder of its own, servers, processes, a deadline. All of it is gone when the case ends."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from driver import processes, wire

from . import http
from .case import Failed, Skip
from .server import Server, StdioServer
from .users import popen_arguments

# How long a thing may take to become true. Far above what it takes when all is well.
SOON = 15


class World:
    """What all cases of one pass share."""

    def __init__(self, binary, mark):
        self.mark = mark
        self.folder = Path(tempfile.mkdtemp(prefix=f"{mark}-"))
        self.folder.chmod(0o755)
        # A copy that every user can run, and that no build replaces meanwhile.
        self.binary = self.folder / "lmcp"
        shutil.copyfile(binary, self.binary)
        self.binary.chmod(0o755)

    def close(self):
        left = processes.sweep(self.mark)
        remove(self.folder)
        return left


class Context:
    """One case's run."""

    def __init__(self, world, case):
        self.world = world
        self.binary = str(world.binary)
        self.mark = f"{world.mark}.{case.name}."
        self.folder = Path(tempfile.mkdtemp(prefix=f"{case.name[:8]}-", dir=world.folder))
        self.folder.chmod(0o755)
        self.deadline = time.monotonic() + case.limit
        self.open = []
        self.seen = []
        self.root, self.home = self.make("root"), self.make("home", 0o700)
        self.runtime, self.state = self.make("run", 0o700), self.make("state", 0o700)
        self.temporary = self.make("tmp", 0o1777)

    def close(self):
        for thing in reversed(self.open):
            try:
                thing.close()
            except (OSError, subprocess.SubprocessError):
                pass
        processes.sweep(self.mark)
        remove(self.folder)

    def note(self, text):
        """Says what was seen, for the line of this case in the report."""
        self.seen.append(text)

    # Files and folders.

    def make(self, name, mode=0o755):
        path = self.folder / name
        path.mkdir(exist_ok=True)
        path.chmod(mode)
        return path

    def secret(self, name="secret"):
        """A file outside of the root, with a word that must never be seen."""
        path = self.make("outside") / name
        path.write_text(SECRET)
        return path

    def python(self):
        """An interpreter that every user, and a fenced command, can run."""
        for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
            if os.access(path, os.X_OK):
                return path
        if sys.executable.startswith(("/usr/", "/bin/", "/opt/")):
            return sys.executable
        raise Skip("there is no python3 below /usr, where commands behind the fence could run it")

    # Servers and processes.

    def environment(self, mark, extra=None):
        env = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "TMPDIR": str(self.temporary),
            "LANG": "C.UTF-8",
            "ATTACK_SUITE": mark,
        } | (extra or {})
        return {name: value for name, value in env.items() if value is not None}

    def next_mark(self):
        return f"{self.mark}{len(self.open)}."

    def serve(self, *options, tokens=(), http=True, unix=False, env=None, uid=None, wrap=(), state=None):
        """A server in the background. Each of `tokens` is the name of a caller, whose token is `token_of(name)`."""
        mark = self.next_mark()
        command = [*wrap, self.binary, "serve", *map(str, options), "--state-dir", str(state or self.state)]
        command += ["--http", "0"] if http else []
        command += ["--unix"] if unix is True else ["--unix", str(unix)] if unix else []
        command += ["--config", str(self.config(tokens))] if tokens else []
        server = Server(command, self.environment(mark, env), mark, self.folder, uid)
        server.has_tokens = bool(tokens)
        self.open.append(server)
        return server.wait_until_it_listens(http, unix)

    def config(self, tokens):
        path = self.folder / f"config-{len(self.open)}.toml"
        path.write_text("".join(f'[[token]]\nname = "{name}"\nsecret = "{token_of(name)}"\n' for name in tokens))
        path.chmod(0o600)
        return path

    def stdio(self, *options, env=None, era=wire.MODERN, state=None, wrap=()):
        """A server on stdio."""
        words = ["serve", "--stdio", *map(str, options), "--state-dir", str(state or self.state)]
        return self.speak([*wrap, self.binary, *words], env, era)

    def proxy(self, *options, env=None, era=wire.MODERN, wrap=()):
        return self.speak([*wrap, self.binary, "proxy", *map(str, options)], env, era)

    def speak(self, command, env=None, era=wire.MODERN):
        mark = self.next_mark()
        server = StdioServer(command, self.environment(mark, env), mark, era)
        self.open.append(server)
        return server

    def start(self, command, env=None, uid=None, **more):
        """A process with pipes, swept at the end."""
        mark = self.next_mark()
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=more.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(mark, env),
            start_new_session=True,
            **popen_arguments(uid),
            **more,
        )
        self.open.append(Ending(process))
        return process

    def finish(self, command, env=None, uid=None, seconds=30, **more):
        """Runs a command to its end: exit code, stdout, stderr."""
        process = self.start(command, env, uid, **more)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise Failed(f"`{' '.join(map(str, command))[:80]}` does not end: {out[-300:]!r} {err[-300:]!r}") from None
        return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def keep(self, thing):
        """Closes it when the case ends."""
        self.open.append(thing)
        return thing

    # Waiting.

    def until(self, condition, what, seconds=SOON):
        """Looks again and again until it is true."""
        deadline = min(self.deadline, time.monotonic() + seconds)
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() > deadline:
                raise Failed(f"waited in vain: {what}")
            time.sleep(0.03)

    def until_gone(self, mark, after, seconds=SOON):
        """Waits until no process carries the mark."""
        try:
            self.until(lambda: processes.nobody_carries(mark), "", seconds)
        except Failed:
            still = processes.describe(processes.carrying(mark))
            raise Failed(f"{seconds} s after {after} there still run {still}") from None


class Ending:
    """A process that is killed with all it started in its session."""

    def __init__(self, process):
        self.process = process

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


class Sockets:
    """Many connections, closed together."""

    def __init__(self):
        self.sockets = []

    def add(self, connection):
        self.sockets.append(connection)
        return connection

    def ask_and_not_read(self, server, messages, wait=None, buffer=4096):
        """A new connection, to the server's socket if it has one, else by HTTP. It takes in little, and none of its answers is read.

        `wait`: the seconds to wait for a server that reads no further, which is right; None for not at all.
        """
        if server.socket:
            connection = self.add(socket.socket(socket.AF_UNIX))
            connection.connect(server.socket)
        else:
            connection = self.add(http.connect(server.port))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.settimeout(wait or 0)
        try:
            connection.sendall(messages)
        except OSError:
            pass
        return connection

    def close(self):
        for connection in self.sockets:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            connection.close()


SECRET = "the-word-that-must-not-be-seen"


def token_of(name):
    return f"{name}-0123456789abcdef0123456789abcdef"


def remove(folder):
    """Removes a folder, however deep it is and whatever modes a case left in it. `rm` does so without recursion."""
    for prepare in (["true"], ["chmod", "-R", "u+rwX"]):
        subprocess.run([*prepare, str(folder)], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["rm", "-rf", str(folder)], stderr=subprocess.DEVNULL, check=False)
        if not os.path.lexists(folder):
            return
