"""MCP messages of both eras, and the table of requests that wait for an answer.

Not a transport: `stdio.py` and `http.py` carry these messages.
"""

import json
import threading
import time

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
CLIENT = {"name": "shell-suite", "version": "1.0.0"}

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class NoAnswer(Exception):
    """A request was not answered in its time, or cannot be answered any more."""


class Call:
    """A request under way. The transport's reader completes it."""

    def __init__(self, connection, id):
        self.connection = connection
        self.id = id
        self.sent = time.monotonic()
        self.answered = None
        self.answer = None
        self.gone = None
        self.done = threading.Event()

    def wait(self, deadline):
        """The answer, a JSON-RPC response object."""
        if not self.done.wait(max(0, deadline - time.monotonic())):
            raise NoAnswer(f"no answer within {time.monotonic() - self.sent:.1f} s")
        if self.answer is None:
            raise NoAnswer(self.gone)
        return self.answer

    def cancel(self):
        self.connection.cancel(self)

    def complete(self, answer):
        self.answered = time.monotonic()
        self.answer = answer
        self.done.set()

    def fail(self, reason):
        self.gone = reason
        self.done.set()


class Calls:
    """Requests by id, shared by the threads that send and the one that reads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.waiting = {}
        self.next_id = 1
        self.closed = None

    def open(self, connection):
        with self.lock:
            if self.closed:
                raise NoAnswer(self.closed)
            call = Call(connection, self.next_id)
            self.next_id += 1
            self.waiting[call.id] = call
            return call

    def complete(self, answer):
        with self.lock:
            call = self.waiting.pop(answer.get("id"), None)
        if call:
            call.complete(answer)

    def fail_all(self, reason):
        with self.lock:
            self.closed = reason
            waiting, self.waiting = list(self.waiting.values()), {}
        for call in waiting:
            call.fail(reason)


def request(id, method, params, era):
    params = dict(params)
    if era == MODERN:
        params["_meta"] = META
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(method, params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def initialize_params():
    return {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT}


def reply_to(message):
    """What a client without capabilities says to a request of the server."""
    head = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "ping":
        return head | {"result": {}}
    return head | {"error": {"code": -32601, "message": f"this client has no {message['method']}"}}


def encode(message):
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line):
    """One message, or None: a server may print what is no message, but then nobody waits for it."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
