"""A server that runs already, over Streamable HTTP. The suite does not own it, so it never kills it."""

import contextlib
import http.client
import json
import socket
import threading
import urllib.parse

from . import wire


class Http:
    """One session, or none in the modern era. Every request has its own connection and thread."""

    pid = None

    def __init__(self, url, era):
        self.url = urllib.parse.urlsplit(url)
        self.era = era
        self.calls = wire.Calls()
        self.session = None
        self.ready = False

    def handshake(self, deadline):
        if self.era == wire.LEGACY:
            self.request("initialize", wire.initialize_params()).wait(deadline)
            self.ready = True
            self._post_and_forget(wire.notification("notifications/initialized", {}))

    def request(self, method, params):
        call = self.calls.open(self)
        call.socket, call.cancelled = None, False
        message = wire.request(call.id, method, params, self.era)
        threading.Thread(target=self._exchange, args=(call, message), daemon=True).start()
        return call

    def cancel(self, call):
        """By a message in the legacy era; in the modern one, by going away."""
        if self.era == wire.LEGACY:
            self.cancel_id(call.id)
            return
        # A call that has no connection yet finds this when it has one.
        call.cancelled = True
        if call.socket:
            # Unlike close(), this reaches the peer while another thread is reading. It fails if all is over.
            with contextlib.suppress(OSError):
                call.socket.shutdown(socket.SHUT_RDWR)

    def cancel_id(self, id):
        if self.era == wire.LEGACY:
            self._post_and_forget(wire.notification("notifications/cancelled", {"requestId": id}))

    def close(self):
        if self.session:
            with contextlib.closing(self._connect()) as connection, contextlib.suppress(OSError):
                connection.request("DELETE", self.url.path or "/", headers=self._headers({}))
                connection.getresponse().read()
        self.calls.fail_all("the connection was closed")

    def complaint(self):
        return ""

    def _exchange(self, call, message):
        try:
            answer = self._post(call, message)
        except (OSError, http.client.HTTPException, ValueError) as error:
            call.fail(f"the request failed: {error}")
            return
        if answer is None:
            call.fail("the response held no answer")
        else:
            self.calls.complete(answer)

    def _post(self, call, message):
        with contextlib.closing(self._connect()) as connection:
            connection.connect()
            call.socket = connection.sock
            if call.cancelled:
                raise OSError("cancelled before it was sent")
            connection.request("POST", self.url.path or "/", wire.encode(message), self._headers(message))
            response = connection.getresponse()
            self.session = response.headers.get("Mcp-Session-Id", self.session)
            if response.headers.get_content_type() == "text/event-stream":
                return self._from_events(response, message["id"])
            body = response.read()
        try:
            return json.loads(body) | {"id": message["id"]}
        except (ValueError, TypeError):
            raise ValueError(f"status {response.status}: {body[:200]!r}") from None

    def _from_events(self, response, id):
        for line in response:
            if not line.startswith(b"data:"):
                continue
            message = wire.decode(line[5:])
            if message and message.get("id") == id and "method" not in message:
                return message
            if message and "id" in message and "method" in message:
                self._post_and_forget(wire.reply_to(message))
        return None

    def _post_and_forget(self, message):
        with contextlib.closing(self._connect()) as connection:
            try:
                connection.request("POST", self.url.path or "/", wire.encode(message), self._headers(message))
                connection.getresponse().read()
            except OSError as error:
                raise wire.NoAnswer(f"the server takes no notification: {error}") from error

    def _connect(self):
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        return kind(self.url.netloc, timeout=120)

    def _headers(self, message):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        if self.era == wire.MODERN or self.ready:
            headers["MCP-Protocol-Version"] = self.era
        if self.era == wire.MODERN and "method" in message:
            headers["Mcp-Method"] = message["method"]
            params = message["params"]
            name = params.get("name") or params.get("uri")
            if name:
                headers["Mcp-Name"] = name
        return headers
