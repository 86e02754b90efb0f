"""Prints the functions that a program runs at start and on a few requests, in the form that the linker orders by.

The program is run under valgrind's callgrind, on stdio and over HTTP, behind a proxy and as a hub and a bridge, and asked
what every client asks. The addresses it executed are looked up in its own symbol table.

    python3 layout/trace.py PROGRAM > order.txt
"""

import bisect
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

from messages import ACCEPT, free_port, is_echo, modern, modern_headers, opening, post, wait_for

LISTS = [("server/discover", {}), ("tools/list", {})]
ECHO = ("tools/call", {"name": "echo", "arguments": {"text": "hello world"}})
READ = ("tools/call", {"name": "read_file", "arguments": {"path": __file__, "limit": 20}})
SHELL = ("tools/call", {"name": "shell", "arguments": {"command": "echo hi"}})

# So many calls fill every pipe and queue.
FLOOD = 3000

# What runs only when two threads meet, or a pipe is full at the wrong moment: a trace sees it by chance.
MEETINGS = ("14lock_contended", "5waker11wake_by_ref", "7context5defer", "17decode_error_kind", "6Notify14notify_waiters")

# What a program is asked: nothing, what every client asks first, and then the calls that are made most.
# A proxy runs beside its server, so what it alone needs stands apart as well, and so does what a hub and a bridge need.
TIERS = STARTED, LISTED, CALLED, PROXIED, BETWEEN = range(5)


def calls(program, tier, tool=None):
    if tier == STARTED:
        return []
    if tier == LISTED:
        return LISTS
    if tool:
        return [*LISTS, *[("tools/call", {"name": tool, "arguments": {"text": "hello world"}})] * 2]
    return [*LISTS, ECHO, ECHO] if is_echo(program) else [*LISTS, READ, READ, SHELL, SHELL]


def old_messages(program, tier, tool=None):
    if tier == STARTED:
        return []
    return [
        *opening(),
        *({"jsonrpc": "2.0", "id": 11 + n, "method": m, "params": p} for n, (m, p) in enumerate(calls(program, tier, tool)[1:])),
    ]


def main():
    program = sys.argv[1]
    symbols = Symbols(program)
    order, counts = [], []
    for tier in TIERS:
        functions = set()
        with tempfile.TemporaryDirectory() as folder:
            if tier in (STARTED, LISTED, CALLED):
                trace_stdio(program, os.path.join(folder, "stdio"), tier)
                trace_http(program, serve_http(program), os.path.join(folder, "http"), tier)
            elif is_echo(program):
                continue
            elif tier == PROXIED:
                trace_proxy(program, os.path.join(folder, "proxy"))
            else:
                trace_between(program, folder)
            # A guard of a command is the same program, traced beside its server.
            for trace in glob.glob(os.path.join(folder, "*.[0-9]*")):
                functions |= {symbols.at(address) for address in executed(trace)}
        if tier == CALLED:
            functions |= {name for _, name in symbols.rows if any(part in name for part in MEETINGS)}
        # Apart, so that a server that nobody has asked anything yet has mapped only what it ran.
        order += sorted(functions - {None} - set(order))
        counts.append(len(order))
    print("\n".join(order))
    words = ("to start", "with the first lists", "with calls", "with a proxy", "with a hub and a bridge")
    print(", ".join(f"{count} {word}" for count, word in zip(counts, words)), "functions", file=sys.stderr)


def start(program, arguments, trace, **streams):
    command = ["valgrind", "--tool=callgrind", "--dump-instr=yes", f"--callgrind-out-file={trace}.%p", "-q"]
    command += ["--fair-sched=yes"]
    # The guards of commands are this program; the commands themselves are not.
    command += ["--trace-children=yes", "--trace-children-skip=*/bash,*/sh", program]
    # What the program keeps between two runs goes where the trace goes.
    environment = os.environ | {"LMCP_STATE_DIR": os.path.dirname(trace)}
    return subprocess.Popen(command + arguments, stderr=subprocess.DEVNULL, env=environment, **streams)


def messages(program, tier, tool=None):
    for number, (method, params) in enumerate(calls(program, tier, tool)):
        yield modern(number, method, params)


def trace_stdio(program, trace, tier):
    arguments = ["stdio"] if is_echo(program) else ["serve", "--stdio"]
    trace_lines(program, arguments, trace, tier)


def trace_lines(program, arguments, trace, tier, tool=None):
    """Asks a program on stdio."""
    child = start(program, arguments, trace, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    everything = [*messages(program, tier, tool), *old_messages(program, tier, tool)]
    lines = "".join(json.dumps(message) + "\n" for message in everything)
    child.stdin.write(lines.encode())
    child.stdin.flush()
    for message in everything:
        if "id" in message:
            child.stdout.readline()
    if tier == CALLED and is_echo(program):
        flood(child)
    child.stdin.close()
    child.wait(timeout=60)


def flood(child):
    """More calls than pipes hold, from a client that reads late: what waits for it runs, too."""
    lines = "".join(json.dumps(modern(100 + number, *ECHO)) + "\n" for number in range(FLOOD))
    writer = threading.Thread(target=lambda: (child.stdin.write(lines.encode()), child.stdin.flush()))
    writer.start()
    writer.join(timeout=5)
    for _ in range(FLOOD):
        child.stdout.readline()
    writer.join()


def serve_http(program):
    return ["http"] if is_echo(program) else ["serve", "--http"]


def trace_between(program, folder):
    """A hub over two servers of which one is dead, over HTTP and on stdio, and a bridge in front of one."""
    demo = ["serve", "--demo", "--stdio"]
    config = os.path.join(folder, "hub.toml")
    with open(config, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(f"[servers.a]\ncommand = {json.dumps(program)}\nargs = {json.dumps(demo)}\n")
        file.write('[servers.dead]\ncommand = "/no/such/program"\n')
    hub = ["hub", "--config", config, "--http"]
    # Twice: the second time the lists are known from the first.
    for name in ("hub-first", "hub"):
        trace_http(program, hub, os.path.join(folder, name), BETWEEN, "a__echo")
    trace_lines(program, ["hub", "--config", config, "--stdio"], os.path.join(folder, "hub-stdio"), BETWEEN, "a__echo")
    port = free_port()
    bridge = ["bridge", "--http", str(port), "--", program, *demo]
    trace_http(program, bridge, os.path.join(folder, "bridge"), BETWEEN, "echo", port)


def trace_http(program, arguments, trace, tier, tool=None, port=None):
    """Asks a program over HTTP. Without a port, the last of its arguments wants one."""
    if port is None:
        port = free_port()
        arguments = [*arguments, str(port)]
    child = start(program, arguments, trace)
    try:
        wait_for(port, child)
        for message in messages(program, tier, tool):
            post(port, message, modern_headers(message))
        session = {}
        for message in old_messages(program, tier, tool):
            opened = post(port, message, {**ACCEPT, **session}).get("Mcp-Session-Id")
            session = {"Mcp-Session-Id": opened} if opened else session
    finally:
        child.send_signal(signal.SIGINT)
        child.wait(timeout=60)


def trace_proxy(program, trace):
    """A client of a server on a unix socket. Only the proxy in between is traced."""
    address = f"{trace}.sock"
    environment = os.environ | {"LMCP_STATE_DIR": os.path.dirname(trace)}
    server = subprocess.Popen([program, "serve", "--unix", address], stderr=subprocess.DEVNULL, env=environment)
    try:
        child = start(program, ["proxy", address], trace, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for message in old_messages(program, LISTED):
            child.stdin.write(json.dumps(message).encode() + b"\n")
            child.stdin.flush()
            if "id" in message:
                child.stdout.readline()
        child.stdin.close()
        child.wait(timeout=60)
    finally:
        server.terminate()
        server.wait(timeout=60)


def executed(trace):
    """The instruction addresses of a callgrind file: absolute, or relative to the one before."""
    address = 0
    for line in open(trace, errors="replace"):
        match = re.match(r"(0x[0-9a-f]+|[+-]\d+|\*) ", line)
        if not match:
            continue
        token = match[1]
        if token.startswith("0x"):
            address = int(token, 16)
        elif token != "*":
            address += int(token)
        yield address


class Symbols:
    def __init__(self, program):
        listing = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
        rows = (line.split(" ", 2) for line in listing.splitlines())
        code = [(int(row[0], 16), row[2]) for row in rows if len(row) == 3 and row[0].strip() and row[1] in "tTwW"]
        self.rows = sorted(code)
        self.addresses = [address for address, _ in self.rows]

    def at(self, address):
        index = bisect.bisect(self.addresses, address) - 1
        return self.rows[index][1] if index >= 0 else None


main()
