"""A server that this suite starts, and so may kill, over stdin and stdout."""

import os
import select
import subprocess
import sys
import tempfile
import threading
import time

from . import processes, wire

WRITE_SECONDS = 10

# Opened by the leader of a new session, a terminal becomes the controlling one.
UNDER_TERMINAL = "import os, sys; os.open(sys.argv[1], os.O_RDWR); os.execvp(sys.argv[2], sys.argv[2:])"


class Stdio:
    """One process of the server under test and the connection to it."""

    def __init__(self, command, era, env, mark, terminal=None):
        self.era = era
        self.calls = wire.Calls()
        self.mark = mark
        self.stderr = tempfile.TemporaryFile()
        if terminal:
            command = [sys.executable, "-c", UNDER_TERMINAL, terminal, *command]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            env=env | {"SHELL_SUITE_SERVER": mark},
            start_new_session=True,
            bufsize=0,
        )
        os.set_blocking(self.process.stdin.fileno(), False)
        self.answers = os.fdopen(os.dup(self.process.stdout.fileno()), "rb", 1 << 16)
        self.writing = threading.Lock()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    @property
    def pid(self):
        return self.process.pid

    def handshake(self, deadline):
        if self.era == wire.LEGACY:
            self.request("initialize", wire.initialize_params()).wait(deadline)
            self._send(wire.notification("notifications/initialized", {}))

    def request(self, method, params):
        call = self.calls.open(self)
        self._send(wire.request(call.id, method, params, self.era))
        return call

    def request_and_cancel(self, method, params):
        """Both messages in one write, so that the server has the second before it can have done much of the first."""
        call = self.calls.open(self)
        messages = wire.request(call.id, method, params, self.era), self._cancelled(call.id)
        self._write(b"".join(map(wire.encode, messages)))
        return call

    def cancel(self, call):
        self._send(self._cancelled(call.id))

    def cancel_id(self, id):
        self._send(self._cancelled(id))

    def close_input(self):
        """What a client does that leaves."""
        with self.writing:
            try:
                self.process.stdin.close()
            except OSError:
                pass

    def signal(self, number):
        self.process.send_signal(number)

    def ended_by(self, deadline):
        try:
            self.process.wait(max(0.05, deadline - time.monotonic()))
            return True
        except subprocess.TimeoutExpired:
            return False

    def close(self):
        """Ends the server, and by force if it must be. What it leaves behind is swept by its mark."""
        self.close_input()
        if not self.ended_by(time.monotonic() + 2):
            self.process.kill()
            self.process.wait()
        processes.sweep(self.mark)
        self.reader.join(2)
        self.process.stdout.close()
        if not self.reader.is_alive():
            self.answers.close()
        self.stderr.close()

    def complaint(self):
        """The end of what the server wrote to stderr."""
        self.stderr.seek(0, os.SEEK_END)
        self.stderr.seek(max(0, self.stderr.tell() - 300))
        return self.stderr.read().decode(errors="replace").strip()

    def _cancelled(self, id):
        return wire.notification("notifications/cancelled", {"requestId": id, "reason": "the suite says so"})

    def _send(self, message):
        self._write(wire.encode(message))

    def _write(self, data):
        try:
            with self.writing:
                self._write_all(memoryview(data))
        except (OSError, ValueError) as error:
            raise wire.NoAnswer(f"the server takes no input: {error}") from error

    def _write_all(self, data):
        """Bounded: a server that stops reading must not stop the suite."""
        # Unlike select(), this takes descriptors of any number.
        room = select.poll()
        room.register(self.process.stdin, select.POLLOUT)
        while data:
            if not room.poll(WRITE_SECONDS * 1000):
                raise OSError(f"it has read nothing for {WRITE_SECONDS} s")
            data = data[self.process.stdin.write(data) or 0 :]

    def _read(self):
        try:
            for line in self.answers:
                self._take(wire.decode(line))
        except (OSError, ValueError):
            pass
        self.calls.fail_all("the server ended without an answer")

    def _take(self, message):
        if message is None:
            return
        if "method" not in message:
            self.calls.complete(message)
        elif "id" in message:
            try:
                self._send(wire.reply_to(message))
            except wire.NoAnswer:
                pass
