"""Clients beside each other: the same calls to the same server, lmcp's echo, over HTTP and on stdio.

What is measured is the client alone. It stops before the calls and after them, and the kernel is asked what it used.
"""

import json
import subprocess
import sys
import time
from dataclasses import dataclass, field

from .http_load import say
from .process import HttpServer, Server
from .programs import BENCH, ROOT, TARGET, Program, cargo_build, host_triple
from .wire import Failed

sys.path.insert(0, str(ROOT / "clients"))

from tools import TOOLS, find_node, install_node  # noqa: E402  (the path above makes it importable)

# How many calls wait for an answer at once.
SHAPES = (1, 16)
WAYS = ("http", "stdio")
CALLS = 10_000
MANIFEST = BENCH / "clients" / "Cargo.toml"


@dataclass
class Called:
    """One value a round, by way and shape."""

    rate: dict = field(default_factory=dict)
    cpu_micros: dict = field(default_factory=dict)
    rss_kb: dict = field(default_factory=dict)


def clients(build):
    """lmcp's client, rmcp's and that of the TypeScript SDK: each a program, and the words that start it."""
    host = host_triple()
    lock = MANIFEST.with_name("Cargo.lock").read_text()
    rmcp = lock.split('name = "rmcp"\nversion = "')[1].split('"')[0]
    found = []
    for name, label in (("lmcp", "lmcp"), ("rmcp", f"rmcp {rmcp}")):
        package = f"{name}-calls"
        path = TARGET / "clients" / host / "release" / package
        # One package at a time: together they would share the union of their features.
        profile = ["--manifest-path", MANIFEST, "--release", "-p", package]
        if build and not cargo_build(profile, host, TARGET / "clients"):
            sys.exit(f"bench: cannot build the client `{package}`")
        missing = None if path.exists() else "it is not built"
        found.append((Program(name, label, path, missing=missing), [path]))
    install_node("typescript-2", "calls.mjs")
    [version] = json.loads((ROOT / "clients/typescript-2/package.json").read_text())["dependencies"].values()
    node = find_node()
    found.append((Program("typescript", f"TypeScript SDK {version}", node), [node, TOOLS / "typescript-2/calls.mjs"]))
    return found


def measure_clients(everyone, echo, settings):
    """Name of a client → Called, or why there is none."""
    if echo.missing:
        return {client.name: f"skipped: {echo.missing}" for client, _ in everyone}
    results = {client.name: Called() for client, _ in everyone}
    for round_number in range(settings.rounds):
        for client, command in everyone:
            if client.missing:
                results[client.name] = f"skipped: {client.missing}"
            elif not isinstance(results[client.name], str):
                try:
                    one_round(results[client.name], command, echo)
                except (Failed, OSError) as error:
                    results[client.name] = f"failed: {error}"
        say(f"client: round {round_number + 1} of {settings.rounds}")
    return results


def one_round(seen, command, echo):
    for at_once in SHAPES:
        with HttpServer(echo) as server:
            once(seen, ("http", at_once), [*command, CALLS, at_once, "http", f"http://127.0.0.1:{server.port}/mcp"])
        once(seen, ("stdio", at_once), [*command, CALLS, at_once, "stdio", echo.path, "stdio"])


def once(seen, shape, command):
    words = [str(word) for word in command]
    with Server(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        await_word(client, b"ready\n")
        cpu, began = client.cpu_seconds(), time.perf_counter()
        go_on(client)
        await_word(client, b"done\n")
        took, used = time.perf_counter() - began, client.cpu_seconds() - cpu
        seen.rate.setdefault(shape, []).append(CALLS / took)
        seen.cpu_micros.setdefault(shape, []).append(used / CALLS * 1e6)
        seen.rss_kb.setdefault(shape, []).append(client.memory_kb("VmRSS"))
        go_on(client)
        client.child.wait(10)


def await_word(client, word):
    line = client.child.stdout.readline()
    if line != word:
        raise Failed(f"said {line!r} instead of {word!r}")


def go_on(client):
    client.child.stdin.write(b"\n")
    client.child.stdin.flush()
