"""MCP on a unix socket: a message a line. For servers, guards and hosts that listen on one."""

import json
import socket
import threading

from driver import wire


class Lines:
    """One connection. Requests may run side by side; the answers are matched by their id."""

    def __init__(self, path, era=wire.MODERN):
        self.era = era
        self.calls = wire.Calls()
        self.notifications = []
        self.sending = threading.Lock()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        threading.Thread(target=self._read, daemon=True).start()

    def request(self, method, params):
        call = self.calls.open(self)
        self.send(wire.request(call.id, method, params, self.era))
        return call

    def send(self, message):
        data = wire.encode(message)
        try:
            with self.sending:
                self.socket.sendall(data)
        except OSError as error:
            raise wire.NoAnswer(f"the server takes no input: {error}") from error

    def cancel(self, call):
        self.send(wire.notification("notifications/cancelled", {"requestId": call.id}))

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()

    def _read(self):
        try:
            for line in self.socket.makefile("rb"):
                message = wire.decode(line)
                if message and "method" not in message:
                    self.calls.complete(message)
                elif message:
                    self.notifications.append(message)
        except (OSError, ValueError):
            pass
        self.calls.fail_all("the server closed the connection")


def ask_socket(path, messages, seconds=10):
    """Sends raw lines and returns the lines that come back until the end, or until there is one for each."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        connection.connect(str(path))
        for message in messages:
            connection.sendall(json.dumps(message).encode() + b"\n")
        lines = []
        for line in connection.makefile("rb"):
            lines.append(line.decode(errors="replace"))
            if len(lines) == len(messages):
                break
        return lines
