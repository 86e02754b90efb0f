"""One server on stdio, and an account of what a model pays for it: calls, and bytes of what it is shown.

Counted is what a client that shows text shows: the text blocks, of a link its address, and of too much the beginning.
Images are counted apart.
"""

import json
import os
import queue
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 40
# Clients cut what is longer, here as OpenCode does: the model sees the beginning, and that something is missing.
CUT = 50 * 1024


class Failed(Exception):
    """A task was not done, and why."""


@dataclass
class Answer:
    text: str
    images: int
    is_error: bool


@dataclass
class Session:
    """A server in the folder of a task; leave the `with` block and it is gone, with all it started there."""

    command: list
    folder: Path
    env: dict
    answers: list = field(default_factory=list)

    def __enter__(self):
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        env = {"PATH": os.environ["PATH"], "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1", **self.env}
        self.child = subprocess.Popen(self.command, cwd=self.folder, env=env, text=True, **streams)
        self.lines, self.last_id = queue.Queue(), 0
        threading.Thread(target=self.read, daemon=True).start()
        # A client that shows its model the text.
        client = {"name": "opencode", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self.send({"method": "notifications/initialized"})
        self.tools = self.request("tools/list", {})["tools"]
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        for end in (self.child.terminate, self.child.kill, lambda: None):
            try:
                self.child.wait(0.5)
                break
            except subprocess.TimeoutExpired:
                end()
        for pid in running_in(self.folder):
            os.kill(pid, signal.SIGKILL)

    def call(self, tool, **arguments):
        """One call, as a model makes it."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        blocks = result.get("content", [])
        texts = [shown(block) for block in blocks if block["type"] != "image"]
        images = sum(block["type"] == "image" for block in blocks)
        text = "\n".join(texts).encode()[:CUT].decode(errors="ignore")
        self.answers.append(Answer(text, images, bool(result.get("isError"))))
        return self.answers[-1]

    def path(self, name=""):
        return str(self.folder / name) if name else str(self.folder)

    def takes(self, tool, argument):
        """Does it offer this tool with this argument?"""
        schemas = (offered["inputSchema"] for offered in self.tools if offered["name"] == tool)
        return any(argument in schema.get("properties", {}) for schema in schemas)

    @property
    def seen(self):
        return "\n".join(answer.text for answer in self.answers)

    def request(self, method, params):
        self.last_id += 1
        self.send({"id": self.last_id, "method": method, "params": params})
        while True:
            try:
                line = self.lines.get(timeout=SECONDS)
            except queue.Empty:
                raise Failed(f"no answer to {method} within {SECONDS} s") from None
            if line is None:
                raise Failed("the server ended")
            message = json.loads(line)
            if message.get("id") == self.last_id and "method" not in message:
                error = message.get("error")
                return message["result"] if error is None else {"content": [text_of(error)], "isError": True}

    def send(self, message):
        self.child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.child.stdin.flush()

    def read(self):
        for line in self.child.stdout:
            self.lines.put(line)
        self.lines.put(None)


def shown(block):
    if block["type"] == "text":
        return block["text"]
    return block.get("uri") or json.dumps(block)


def text_of(error):
    return {"type": "text", "text": error["message"]}


def running_in(folder):
    """Processes whose working folder is there: only what was started for this task has that."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                at = Path(os.readlink(entry / "cwd"))
            except OSError:
                continue
            if at == folder or folder in at.parents:
                found.append(int(entry.name))
    return found
