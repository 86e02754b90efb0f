"""Prints the functions that a program runs at start and on a few requests, in the form that the linker orders by.

The program is run under valgrind's callgrind, on stdio and over HTTP, and asked what every client asks. The addresses
it executed are looked up in its own symbol table.

    python3 layout/trace.py PROGRAM > order.txt
"""

import bisect
import glob
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "trace", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
LISTS = [("server/discover", {}, None), ("tools/list", {}, None)]
ECHO = ("tools/call", {"name": "echo", "arguments": {"text": "hello world"}}, "echo")
READ = ("tools/call", {"name": "read_file", "arguments": {"path": __file__, "limit": 20}}, "read_file")
SHELL = ("tools/call", {"name": "shell", "arguments": {"command": "echo hi"}}, "shell")

# So many calls fill every pipe and queue.
FLOOD = 3000

# What runs only when two threads meet, or a pipe is full at the wrong moment: a trace sees it by chance.
MEETINGS = ("14lock_contended", "5waker11wake_by_ref", "7context5defer", "17decode_error_kind", "6Notify14notify_waiters")

# The same of a client that opens with a handshake.
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "trace", "version": "1"}}


# What a program is asked: nothing, what every client asks first, and then the calls that are made most.
# A proxy runs beside its server, so what it alone needs stands apart as well.
STARTED, LISTED, CALLED, PROXIED = range(4)


def calls(program, tier):
    if tier == STARTED:
        return []
    if tier == LISTED:
        return LISTS
    return [*LISTS, ECHO, ECHO] if is_echo(program) else [*LISTS, READ, READ, SHELL, SHELL]


def old_messages(program, tier):
    if tier == STARTED:
        return []
    return [
        {"jsonrpc": "2.0", "id": 10, "method": "initialize", "params": OPENING},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *({"jsonrpc": "2.0", "id": 11 + n, "method": m, "params": p} for n, (m, p, _) in enumerate(calls(program, tier)[1:])),
    ]


def main():
    program = sys.argv[1]
    symbols = Symbols(program)
    order, counts = [], []
    for tier in (STARTED, LISTED, CALLED, PROXIED):
        functions = set()
        with tempfile.TemporaryDirectory() as folder:
            if tier != PROXIED:
                trace_stdio(program, os.path.join(folder, "stdio"), tier)
                trace_http(program, os.path.join(folder, "http"), tier)
            elif not is_echo(program):
                trace_proxy(program, os.path.join(folder, "proxy"))
            # A guard of a command is the same program, traced beside its server.
            for trace in glob.glob(os.path.join(folder, "*.[0-9]*")):
                functions |= {symbols.at(address) for address in executed(trace)}
        if tier == CALLED:
            functions |= {name for _, name in symbols.rows if any(part in name for part in MEETINGS)}
        # Apart, so that a server that nobody has asked anything yet has mapped only what it ran.
        order += sorted(functions - {None} - set(order))
        counts.append(len(order))
    print("\n".join(order))
    print("{} functions to start, {} with the first lists, {} with calls, {} with a proxy".format(*counts), file=sys.stderr)


def start(program, arguments, trace, **streams):
    command = ["valgrind", "--tool=callgrind", "--dump-instr=yes", f"--callgrind-out-file={trace}.%p", "-q"]
    command += ["--fair-sched=yes"]
    # The guards of commands are this program; the commands themselves are not.
    command += ["--trace-children=yes", "--trace-children-skip=*/bash,*/sh", program]
    # What the program keeps between two runs goes where the trace goes. A server that finds settings of the allocator does
    # not start itself once more, which valgrind cannot follow.
    settings = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}
    environment = os.environ | {"LMCP_STATE_DIR": os.path.dirname(trace)} | settings
    return subprocess.Popen(command + arguments, stderr=subprocess.DEVNULL, env=environment, **streams)


def is_echo(program):
    return os.path.basename(program) == "echo"


def messages(program, tier):
    for number, (method, params, _) in enumerate(calls(program, tier)):
        yield {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": META}}


def trace_stdio(program, trace, tier):
    arguments = ["stdio"] if is_echo(program) else ["serve", "--stdio"]
    child = start(program, arguments, trace, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    everything = [*messages(program, tier), *old_messages(program, tier)]
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
    method, params, _ = ECHO
    call = {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": META}}
    lines = "".join(json.dumps({**call, "id": 100 + number}) + "\n" for number in range(FLOOD))
    writer = threading.Thread(target=lambda: (child.stdin.write(lines.encode()), child.stdin.flush()))
    writer.start()
    writer.join(timeout=5)
    for _ in range(FLOOD):
        child.stdout.readline()
    writer.join()


def trace_http(program, trace, tier):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = ["http", str(port)] if is_echo(program) else ["serve", "--http", f"127.0.0.1:{port}"]
    child = start(program, arguments, trace)
    try:
        wait_for(port, child)
        for message, (method, _, name) in zip(messages(program, tier), calls(program, tier)):
            headers = {
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2026-07-28",
                "Mcp-Method": method,
                **({"Mcp-Name": name} if name else {}),
            }
            post(port, message, headers)
        session = {}
        for message in old_messages(program, tier):
            headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **session}
            opened = post(port, message, headers).get("Mcp-Session-Id")
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


def post(port, message, headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/mcp", json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        response.read()
        return response.headers


def wait_for(port, child):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and child.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the program did not start under valgrind")


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
