"""The tools of a host: what `lmcp serve` takes when nobody calls, and what a call of each kind costs.

A call is compared with what it cannot do without: reading a file with an echo of
the same text, a command with the shell that runs it, a search with ripgrep.
"""

import itertools
import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import wire
from .http_load import say
from .process import HttpServer, Server
from .programs import TARGET
from .stdio_load import one_start
from .wire import Failed

# Of each kind, in turn, in one round.
CALLS = {
    "echo": 400,
    "read_file": 400,
    "edit_file": 100,
    "write_file": 100,
    "shell": 60,
    "bash": 60,
    "search_files": 3,
    "rg": 3,
}
STARTS = 30
# The tree that is searched: so many files of so many lines.
FILES, LINES = 12_000, 250
# In a few files of all: what a search is for.
NEEDLE = "quicksilver_needle"


@dataclass
class Host:
    """Memory in kB, times in seconds, one value a call or start."""

    size_bytes: int
    idle_kb: list = field(default_factory=list)
    listed_kb: list = field(default_factory=list)
    starts: list = field(default_factory=list)
    calls: dict = field(default_factory=lambda: {kind: [] for kind in CALLS})
    cpu: dict = field(default_factory=lambda: {"echo": [], "read_file": []})


def measure_host(binary, settings):
    """{"lmcp": Host}, or why there is none."""
    if binary.missing:
        return {"lmcp": f"skipped: {binary.missing}"}
    try:
        return {"lmcp": measure(binary, settings)}
    except (Failed, OSError) as error:
        return {"lmcp": f"failed: {error}"}


def measure(binary, settings):
    seen = Host(binary.size())
    with tempfile.TemporaryDirectory() as state:
        os.environ["LMCP_STATE_DIR"] = state
        http = replace(binary, serve=("serve", "--http", "127.0.0.1:{port}"))
        for _ in range(settings.rounds):
            with HttpServer(http) as server:
                seen.idle_kb.append(server.memory_kb("VmRSS"))
        for run in range(STARTS + 1):
            seconds = one_start(binary, ("serve", "--stdio"), "read_file")
            # The first brings the file into the page cache.
            if run > 0:
                seen.starts.append(seconds)
        say("host: starts done")
        tree = plant_tree()
        page = Path(state, "page")
        page.write_text("0123456789abcde\n" * 128 + "first\n" + "0123456789abcde\n" * 127)
        demo = Session([binary.path, "serve", "--demo", "--stdio"])
        host = Session([binary.path, "serve", "--stdio"])
        with demo, host:
            host.call("tools/list", {})
            seen.listed_kb.append(host.memory_kb("VmRSS"))
            for _ in range(settings.rounds):
                one_round(seen, demo, host, page, tree)
        say("host: calls done")
        del os.environ["LMCP_STATE_DIR"]
    return seen


def one_round(seen, demo, host, page, tree):
    text = page.read_text()
    before = demo.cpu_seconds(), host.cpu_seconds()
    timed(seen, "echo", lambda: demo.tool("echo", text=text))
    timed(seen, "read_file", lambda: host.tool("read_file", path=str(page)))
    seen.cpu["echo"].append((demo.cpu_seconds() - before[0]) / CALLS["echo"])
    seen.cpu["read_file"].append((host.cpu_seconds() - before[1]) / CALLS["read_file"])
    one_line = itertools.cycle(("first", "second"))
    timed(seen, "edit_file", lambda: change_a_line(host, page, next(one_line)))
    timed(seen, "write_file", lambda: host.tool("write_file", path=str(page), content=text))
    timed(seen, "shell", lambda: host.tool("shell", command="echo hi"))
    timed(seen, "bash", lambda: run(["bash", "-c", "echo hi"]))
    timed(seen, "search_files", lambda: host.tool("search_files", pattern=NEEDLE, path=str(tree)))
    timed(seen, "rg", lambda: run(["rg", "--no-config", "-n", NEEDLE, str(tree)]))


def change_a_line(host, page, line):
    other = "second" if line == "first" else "first"
    host.tool("edit_file", path=str(page), old_string=f"{line}\n", new_string=f"{other}\n")


def timed(seen, kind, once):
    once()
    for _ in range(CALLS[kind]):
        start = time.perf_counter()
        once()
        seen.calls[kind].append(time.perf_counter() - start)


def run(command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


def plant_tree():
    """Files like source, the same every time, made once."""
    tree = TARGET / "tree"
    done = tree / "done"
    if done.exists():
        return tree
    words = ["let", "value", "match", "return", "self", "buffer", "index", "length", "stream", "error", "result"]
    for number in range(FILES):
        folder = tree / f"part{number % 60:02}" / f"unit{number // 60 % 20:02}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [
            " ".join(words[(number * 7 + line * 3 + word * 5) % len(words)] for word in range(9)) + f" // {number}.{line}"
            for line in range(LINES)
        ]
        if number % 1000 == 500:
            lines[LINES // 2] += f" {NEEDLE}"
        (folder / f"file{number}.rs").write_text("\n".join(lines) + "\n")
    done.touch()
    return tree


class Session(Server):
    """A server on stdio that is asked one thing at a time."""

    def __init__(self, command):
        super().__init__(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.id = 0

    def call(self, method, params):
        self.id += 1
        self.child.stdin.write(wire.message(method, params | {"_meta": wire.META}, self.id) + b"\n")
        self.child.stdin.flush()
        while line := self.child.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == self.id:
                return answer
        raise Failed(f"no answer to {method}")

    def tool(self, name, **arguments):
        result = self.call("tools/call", {"name": name, "arguments": arguments}).get("result")
        if not result or result.get("isError"):
            raise Failed(f"`{name}` failed: {result}")
