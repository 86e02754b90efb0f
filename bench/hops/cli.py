"""The command line of `bench/hop`: starts every gateway in front of the same server, loads each in turn, writes the section."""

import argparse
import contextlib
import filecmp
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from driver import wire
from driver.http_load import SHAPES, open_session, run_wrk
from driver.process import Server, free_port
from driver.wire import Failed
from side_by_side.report import put_section

from .report import MARKS, section

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOOLS = ROOT / ".tools/bench/hops"
FOREIGN = ROOT / ".tools/clients/foreign/python/bin/python"
RESULTS = HERE.parent / "RESULTS.md"
UPSTREAMS, DEAD = 20, 5
START_SECONDS = 60


def main():
    args = parse()
    # An exit that unwinds, so that no server is left behind.
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, lambda *_: sys.exit("hop: ended by a signal"))
    install()
    args.load_before = os.getloadavg()[0]
    lmcp = args.lmcp.resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LMCP_STATE_DIR"] = folder
        gateways = measure(list(ways(lmcp, Path(folder))), args)
        many = measure_many(lmcp, Path(folder))
    text = section(gateways, many, args)
    print(text)
    if args.update:
        put_section(RESULTS, text, MARKS)
    return 1 if any(gateway.why for gateway in gateways) else 0


def parse():
    parser = argparse.ArgumentParser(prog="bench/hop", description="Measure one hop beside other gateways.")
    parser.add_argument("--lmcp", type=Path, default=ROOT / "target/shipped/lmcp", metavar="PROGRAM", help="as ./dist lmcp builds it")
    parser.add_argument("--built", default="./dist lmcp", metavar="WORDS", help="how that was built, for the section")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="5 unless told")
    parser.add_argument("--seconds", type=int, default=3, metavar="N", help="of load, a round and shape; 3 unless told")
    parser.add_argument("--update", action="store_true", help="write the section of RESULTS.md")
    return parser.parse_args()


def install():
    if not FOREIGN.exists():
        sys.exit("hop: FastMCP is not installed\nhint: clients/servers, once")
    locks = ("package.json", "package-lock.json", ".npmrc", "requirements.txt")
    if (TOOLS / "installed").exists() and len(filecmp.cmpfiles(HERE, TOOLS, locks, shallow=False)[0]) == len(locks):
        return
    shutil.rmtree(TOOLS, ignore_errors=True)
    TOOLS.mkdir(parents=True)
    for lock in locks:
        shutil.copy(HERE / lock, TOOLS)
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"]
    venv = [sys.executable, "-m", "venv", "python"]
    pip = ["python/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", "requirements.txt"]
    for command in (npm, venv, pip):
        if subprocess.run(command, cwd=TOOLS, stdout=sys.stderr).returncode != 0:
            sys.exit("hop: cannot install what bench/hops names\nhint: the first run needs the network")
    (TOOLS / "installed").touch()


@dataclass
class Gateway:
    """One way to the server, and what was measured on it: per shape, one value a round."""

    name: str
    command: list
    # What is loaded is the server itself.
    is_direct: bool = False
    speaks_mcp = True
    port: int = 0
    session: str | None = None
    why: str = ""
    rss_kb: int = 0
    rate: dict = field(default_factory=lambda: {shape.name: [] for shape in SHAPES})
    p50: dict = field(default_factory=lambda: {shape.name: [] for shape in SHAPES})
    cpu: dict = field(default_factory=lambda: {shape.name: [] for shape in SHAPES})


def ways(lmcp, folder):
    """All of them. An empty word is the port."""
    server = [str(lmcp), "serve", "--demo", "--stdio"]
    versions = dict(line.split("==") for line in (HERE / "requirements.txt").read_text().split())
    node = json.loads((HERE / "package.json").read_text())["dependencies"]["supergateway"]
    fast = next(line for line in (ROOT / "clients/foreign/requirements.txt").read_text().split() if line.startswith("fastmcp=="))
    config = folder / "hub.toml"
    words = f'[servers.demo]\ncommand = "{lmcp}"\nargs = ["serve", "--demo", "--stdio"]\nprefix = ""\n'
    config.write_text(words)
    config.chmod(0o600)
    yield Gateway("the server itself, over HTTP", [lmcp, "serve", "--demo", "--http", ""], is_direct=True)
    yield Gateway("lmcp bridge", [lmcp, "bridge", "--http", "", "--", *server])
    yield Gateway("lmcp hub", [lmcp, "hub", "--http", "", "--config", config])
    gateway = TOOLS / "node_modules/supergateway/dist/index.js"
    options = ["--outputTransport", "streamableHttp", "--stateful", "--logLevel", "none", "--port", ""]
    yield Gateway(f"supergateway {node}", ["node", gateway, "--stdio", " ".join(server), *options])
    proxy = [TOOLS / "python/bin/mcp-proxy", "--log-level", "ERROR", "--port", "", "--", *server]
    yield Gateway(f"mcp-proxy {versions['mcp-proxy']}", proxy)
    yield Gateway(f"FastMCP {fast.partition('==')[2]} proxy", [FOREIGN, HERE / "fastmcp_proxy.py", "", *server])


def measure(gateways, args):
    with contextlib.ExitStack() as stack:
        ready = [(gateway, server) for gateway in gateways if (server := start(stack, gateway))]
        for round in range(args.rounds):
            # Whoever goes first must not be the same one each time.
            turn = round % len(ready)
            for gateway, server in ready[turn:] + ready[:turn]:
                load(gateway, server, args.seconds)
    return gateways


def start(stack, gateway):
    gateway.port = free_port()
    command = [str(gateway.port) if word == "" else str(word) for word in gateway.command]
    server = stack.enter_context(Server(command))
    server.port = gateway.port
    try:
        await_listening(server)
        gateway.session = open_session(gateway.port, gateway, wire.LEGACY, Answer())
        run_wrk(server, wire.LEGACY, gateway.session, SHAPES[-1], 1)
    except (Failed, OSError) as error:
        gateway.why = f"failed: {error}"
        print(f"hop: {gateway.name}: {error}", file=sys.stderr)
        return None
    return server


class Answer:
    """What an answer looks like is of no interest here."""


def await_listening(server):
    end = time.monotonic() + START_SECONDS
    # Some listen on addresses of both kinds at once.
    while socket.socket().connect_ex(("127.0.0.1", server.port)):
        if server.child.poll() is not None or time.monotonic() > end:
            raise Failed(f"does not listen; its status is {server.child.returncode}")
        time.sleep(0.05)


def load(gateway, server, seconds):
    for shape in SHAPES:
        if gateway.why:
            return
        try:
            cpu = server.cpu_seconds()
            seen = run_wrk(server, wire.LEGACY, gateway.session, shape, seconds)
            cpu = server.cpu_seconds() - cpu
        except (Failed, OSError) as error:
            gateway.why = f"failed: {error}"
            print(f"hop: {gateway.name}: {error}", file=sys.stderr)
            return
        gateway.rate[shape.name].append(seen["requests"] / seen["micros"] * 1e6)
        gateway.p50[shape.name].append(seen["p50"])
        gateway.cpu[shape.name].append(cpu / seen["requests"] * 1e6)
        print(f"hop: {gateway.name}, {shape.name}: {gateway.rate[shape.name][-1]:,.0f}/s, p50 {seen['p50']} µs", file=sys.stderr)
    gateway.rss_kb = server.memory_kb("VmRSS")


@dataclass
class Many:
    """A hub over many servers, some of them dead."""

    rss_kb: int
    cold_ms: float
    warm_ms: float


def measure_many(lmcp, folder):
    config = folder / "many.toml"
    lines = [f'state_dir = "{folder / "many"}"', "stdio = true"]
    for number in range(UPSTREAMS):
        lines += [f"[servers.s{number}]", f'command = "{lmcp if number >= DEAD else "/nonexistent"}"']
        lines += ['args = ["serve", "--demo", "--stdio"]']
    config.write_text("\n".join(lines) + "\n")
    config.chmod(0o600)
    cold, _ = first_list(lmcp, config, 0)
    # What the servers offer is known from here on.
    _, rss_kb = first_list(lmcp, config, UPSTREAMS - DEAD)
    warm = [first_list(lmcp, config, 0)[0] for _ in range(20)]
    return Many(rss_kb, cold * 1000, statistics.median(warm) * 1000)


def first_list(lmcp, config, calls):
    """Seconds from the start to the first list of tools; memory after a call of each server that lives."""
    began = time.monotonic()
    with Server([str(lmcp), "hub", "--config", str(config)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        ask(server, wire.initialize(1), 1)
        ask(server, wire.message("tools/list", {}, 2), 2)
        took = time.monotonic() - began
        for number in range(DEAD, DEAD + calls):
            params = {"name": f"s{number}__echo", "arguments": {"text": "x"}}
            ask(server, wire.message("tools/call", params, 10 + number), 10 + number)
        return took, server.memory_kb("VmRSS")


def ask(server, message, id):
    server.child.stdin.write(message + b"\n")
    server.child.stdin.flush()
    while json.loads(server.child.stdout.readline()).get("id") != id:
        pass
