"""HTTP as an attacker and as an honest client speaks it: calls, sessions, streams and raw bytes."""

import http.client
import socket
import time

from driver import wire

from .reply import Reply

LOOPBACK = "127.0.0.1"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Answer(Reply):
    """A response that was read to its end."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        super().__init__(self._message())

    def _message(self):
        """The JSON-RPC message in it, of a stream the last one; empty if there is none."""
        text = self.body.decode(errors="replace")
        if "text/event-stream" in self.headers.get("content-type", ""):
            data = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
            text = data[-1] if data else ""
        message = wire.decode(text)
        return message or {"error": {"message": f"status {self.status}: {text[:300]}"}}


class Caller:
    """A client of 2026-07-28, where each request stands alone. One connection, kept alive."""

    def __init__(self, port, token=None, seconds=60):
        self.port, self.token, self.seconds = port, token, seconds
        self.connection = None

    def call(self, tool, **arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def ask(self, method, params):
        message = wire.request(1, method, params, wire.MODERN)
        return self.post(wire.encode(message), self.headers(method, params))

    def headers(self, method, params=None):
        headers = base_headers(self.token) | {"MCP-Protocol-Version": wire.MODERN, "Mcp-Method": method}
        if method in NAMED:
            headers["Mcp-Name"] = params[NAMED[method]]
        return headers

    def post(self, body, headers):
        return self.exchange("POST", body, headers)

    def exchange(self, verb, body, headers, path="/mcp"):
        for attempt in (1, 2):
            fresh = self.connection is None
            if fresh:
                self.connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=self.seconds)
            try:
                self.connection.request(verb, path, body, headers)
                response = self.connection.getresponse()
                return Answer(response.status, response.headers, self.read(response))
            except (OSError, http.client.HTTPException):
                self.close()
                # A kept connection may have been closed for being idle, as any client has to expect.
                if fresh or attempt == 2:
                    raise

    def read(self, response):
        """The body, within our time: the comments that keep a stream alive do not count."""
        if response.length is not None:
            return response.read()
        deadline, parts = time.monotonic() + self.seconds, []
        while part := response.read1(1 << 20):
            parts.append(part)
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer within {self.seconds} s")
        return b"".join(parts)

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None


class Session(Caller):
    """A client of 2025-11-25, with a session."""

    def __init__(self, port, token=None, capabilities=None, seconds=60):
        super().__init__(port, token, seconds)
        params = wire.initialize_params() | {"capabilities": capabilities or {}}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        answer = self.post(wire.encode(message), base_headers(token))
        if answer.result is None:
            raise wire.NoAnswer(f"no session: {answer.text}")
        self.id = answer.headers["Mcp-Session-Id"]
        self.next_id = 1
        self.tell("notifications/initialized", {})

    def ask(self, method, params):
        return self.post(self.body(method, params), self.headers(method))

    def body(self, method, params):
        self.next_id += 1
        return wire.encode({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})

    def tell(self, method, params):
        return self.post(wire.encode(wire.notification(method, params)), self.headers(method))

    def headers(self, method=None, params=None):
        return base_headers(self.token) | {"MCP-Protocol-Version": wire.LEGACY, "Mcp-Session-Id": self.id}

    def call_unread(self, tool, **arguments):
        """Sends a call on a connection of its own and returns the socket, of which nothing is read."""
        return send(self.port, "POST", self.body("tools/call", {"name": tool, "arguments": arguments}), self.headers())

    def open_stream(self, last_event=None):
        """The GET stream, unread, as a socket."""
        headers = self.headers() | ({"Last-Event-ID": last_event} if last_event else {})
        return send(self.port, "GET", b"", headers | {"Accept": "text/event-stream"})

    def end(self):
        return self.exchange("DELETE", None, self.headers())


def base_headers(token):
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    return headers | ({"Authorization": f"Bearer {token}"} if token else {})


def connect(port, seconds=10):
    connection = socket.create_connection((LOOPBACK, port), timeout=seconds)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def head(verb, path, headers, length=None, port=0):
    lines = [f"{verb} {path} HTTP/1.1", f"Host: {LOOPBACK}:{port}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def send(port, verb, body, headers, path="/mcp", seconds=10):
    """One request on a connection of its own; the socket, of which nothing has been read."""
    connection = connect(port, seconds)
    connection.sendall(head(verb, path, headers, len(body), port) + body)
    return connection


def raw(port, data, seconds=5):
    """Sends bytes as they are and returns what comes back until the end or a silence."""
    try:
        with connect(port, seconds) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # Refused while we spoke; the answer may be there.
            return read_all(connection)
    except OSError:
        return b""


def read_all(connection):
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except OSError:
        pass
    return b"".join(parts)
