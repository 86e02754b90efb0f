"""The messages the benchmark sends, and the check of what comes back.

Not a client: it knows tools/list, tools/call of `echo`, and one handshake.
"""

import json

MODERN = "2026-07-28"
LEGACY = "2025-11-25"

# The servers' real answers differ by a few bytes; all of them carry this text.
TEXT = "hello world"

# As the load scripts have it: ten digits, so that no length changes during a run.
FIRST_ID = 1_000_000_000

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Failed(Exception):
    """A server did not do the work, so its figures would mean nothing."""


def call(id, text=TEXT, era=MODERN):
    params = {"name": "echo", "arguments": {"text": text}}
    if era == MODERN:
        params["_meta"] = META
    return message("tools/call", params, id)


def list_tools(id):
    return message("tools/list", {"_meta": META}, id)


def initialize(id):
    client = {"name": "bench", "version": "1"}
    return message("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}, id)


def initialized():
    return message("notifications/initialized", {})


def message(method, params, id=None):
    head = {"jsonrpc": "2.0"} if id is None else {"jsonrpc": "2.0", "id": id}
    return json.dumps(head | {"method": method, "params": params}, separators=(",", ":")).encode()


def call_headers(era):
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": era,
    }
    if era == MODERN:
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "echo"}
    return headers


def check_echo(answer, id, text=TEXT):
    """Fails unless `answer`, one JSON-RPC message, echoes `text` to request `id`."""
    if echoed_id(answer, text) != id:
        raise Failed(f"wrong answer to call {id}: {answer[:300]!r}")


def echoed_id(answer, text=TEXT):
    """The id that `answer` answers by echoing `text`; None if it is anything else."""
    try:
        parsed = json.loads(answer)
        return parsed["id"] if parsed["result"]["content"][0]["text"] == text else None
    except (ValueError, KeyError, IndexError, TypeError):
        return None


def last_event(body):
    """The last message in an event stream; a session's stream opens with an empty one."""
    data = [line[5:].strip() for line in body.splitlines() if line.startswith(b"data:")]
    return data[-1] if data else b""
