"""A fleet on one machine: hosts behind HTTP, a real sshd, and relays that cut, stall or slow down what they pass on."""

import asyncio
import getpass
import os
import random
import socket
import subprocess
import sys
import threading
from pathlib import Path


# What is in the environment of everything that runs on a host: the folder of the fleet.
MARK = "FLEET_CHAOS"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def said(process, word):
    """Reads what a program says until it says this word, and lets it go on speaking. None: it ended before, and its words are shown."""
    lines = []
    for line in process.stderr:
        if word in line:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return line
        lines.append(line)
    print("".join(lines), end="", file=sys.stderr)
    return None


class Host:
    """`lmcp serve --http` with a token and a state folder of its own."""

    def __init__(self, folder, lmcp, name):
        self.lmcp, self.name, self.folder = lmcp, name, folder / name
        self.folder.mkdir()
        self.token = self.folder / "token"
        self.token.write_text(f"token-of-{name}")
        self.token.chmod(0o600)
        self.process, self.port = None, 0

    def start(self):
        """The second time on the same port."""
        line = self.run("--http", f"127.0.0.1:{self.port}", word="listening on")
        self.port = int(line.split("http://127.0.0.1:")[1].split("/")[0])
        return self

    def run(self, *how, word):
        command = [self.lmcp, "serve", *how, "--token-file", self.token]
        env = {**os.environ, "LMCP_STATE_DIR": str(self.folder / "state"), MARK: str(self.folder.parent)}
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        line = said(self.process, word)
        if line is None:
            sys.exit(f"fleet-chaos: the host {self.name} did not start")
        return line

    def kill(self):
        self.process.kill()
        self.process.wait()


class Joining(Host):
    """The same, for a hub that it connects to itself."""

    def __init__(self, folder, lmcp, name, port):
        super().__init__(folder, lmcp, name)
        self.port = port

    def start(self):
        """It says whether it has joined, or that it tries."""
        self.run("--join", f"http://127.0.0.1:{self.port}", word="join")
        return self


class Sshd:
    """For this user alone. `config` is for `ssh -F`, and calls the host `far`."""

    def __init__(self, folder):
        self.folder = folder / "ssh"
        self.folder.mkdir()
        self.program = next((path for path in ("/usr/sbin/sshd", "/usr/bin/sshd") if Path(path).exists()), None)
        if self.program is None:
            sys.exit("fleet-chaos: there is no sshd\nhint: apt-get install openssh-server")
        if os.geteuid() == 0:
            # Where root's sshd keeps its unprivileged half.
            Path("/run/sshd").mkdir(exist_ok=True)
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        self.port, self.process = free_port(), None

    def start(self):
        config = self.write(
            "sshd_config",
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\nAuthorizedKeysFile {self.folder}/user.pub\n"
            "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
            # A shell that believes to be started by another one does not read `.bashrc`, which may hold a lock when it is killed.
            f"MaxStartups 100\nMaxSessions 100\nSetEnv SHLVL=2 {MARK}={self.folder.parent}\n",
        )
        command = [self.program, "-D", "-e", "-f", config]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
        if said(self.process, "Server listening on") is None:
            sys.exit("fleet-chaos: sshd did not start")
        return self

    def config(self, name, port):
        """How ssh gets to `far` through this port."""
        key = (self.folder / "host.pub").read_text()
        known = self.write(f"{name}.known", f"[127.0.0.1]:{port} {key}")
        return self.write(
            f"{name}.config",
            f"Host far\n  HostName 127.0.0.1\n  Port {port}\n  User {getpass.getuser()}\n  IdentityFile {self.folder}/user\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {known}\n  GlobalKnownHostsFile /dev/null\n",
        )

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    def sessions(self):
        """The processes of sshd that each serve one connection."""
        found = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True)
        return [int(pid) for pid in found.stdout.split()]

    def stop(self):
        self.process.kill()
        self.process.wait()


class Relay:
    """Passes on what comes at its port, unless it was told to do otherwise."""

    def __init__(self, towards):
        self.towards, self.port, self.server = towards, 0, None
        self.open = set()
        # Nothing passes while this is not set. Connections stay open: they are half dead.
        self.passes = asyncio.Event()
        self.passes.set()
        # Seconds that each piece waits.
        self.delay = 0.0

    async def start(self):
        self.server = await asyncio.start_server(self.accept, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def accept(self, reader, writer):
        try:
            there = await asyncio.open_connection("127.0.0.1", self.towards)
        except OSError:
            writer.transport.abort()
            return
        self.open |= {writer, there[1]}
        await asyncio.gather(self.pass_on(reader, there[1]), self.pass_on(there[0], writer))
        self.open -= {writer, there[1]}

    async def pass_on(self, reader, writer):
        try:
            while piece := await reader.read(1 << 16):
                await self.passes.wait()
                if self.delay:
                    await asyncio.sleep(self.delay * random.random() * 2)
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    def cut(self):
        for writer in list(self.open):
            writer.transport.abort()
