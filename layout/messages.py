"""The requests that `trace.py` and `train.py` send, and how they send them."""

import json
import os
import socket
import time
import urllib.request

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "layout", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def is_echo(program):
    return os.path.basename(program) == "echo"


def modern(number, method, params):
    """A request of 2026-07-28."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": META}}


def modern_headers(message):
    """The headers that repeat what a request of 2026-07-28 is about."""
    name = message["params"].get("name") or message["params"].get("uri")
    return {
        **ACCEPT,
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": message["method"],
        **({"Mcp-Name": name} if name else {}),
    }


def opening(revision="2025-11-25"):
    """The two messages that open a session of an older revision."""
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "layout", "version": "1"}}
    return [
        {"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
    raise SystemExit("the program did not start")
