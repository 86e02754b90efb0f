"""What a case is, and what it is given: a server, a folder, a mark, a deadline and ways to fail."""

import os
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import processes, wire
from .profile import Cannot, extract, text_of

# How long a thing may take to become true. Far above what a good server needs, far below what a bug would take.
SOON = 10


class Failed(Exception):
    """The server did the wrong thing."""


@dataclass
class Case:
    name: str
    topic: str
    why: str
    body: object
    peers: str
    needs: tuple
    limit: float
    heavy: bool


CASES = []


def case(why, peers="", needs=(), limit=25, heavy=False):
    """Registers a function as a case. `peers` cites who got it wrong.

    `needs` holds `own` if it ends the server, `sees` if the server's processes must show in /proc here.
    """

    def register(body):
        topic = body.__module__.rpartition(".")[2]
        CASES.append(Case(body.__name__, topic, why, body, peers, tuple(needs), limit, heavy))
        return body

    return register


@dataclass
class World:
    """What all cases of a run share."""

    profile: object
    mark: str
    connect: object
    owns: bool
    sees: bool = True
    folder: Path = field(default_factory=Path)


class Result:
    """The answer to one tool call, its fields by the profile's names."""

    def __init__(self, cx, operation, call, answer):
        self.cx = cx
        self.operation = operation
        self.elapsed = call.answered - call.sent
        self.error = answer.get("error")
        self.raw = answer.get("result") or {}

    def __getitem__(self, name):
        op = self.cx.profile.operation(self.operation)
        if self.error:
            raise Failed(f"`{op.tool}` answered error {self.error.get('code')}: {self.error.get('message')}")
        if name not in op.fields:
            if name == "exit_code" and op.exit_code_from:
                return self.cx.call(op.exit_code_from, id=self["id"])["exit_code"]
            raise Cannot(f"`{self.operation}` tells no `{name}`")
        return extract(op.fields[name], self.raw)

    def tells(self, name):
        return self.cx.profile.tells(self.operation, name)

    @property
    def refused(self):
        return bool(self.error or self.raw.get("isError"))

    @property
    def text(self):
        return self.error.get("message", "") if self.error else text_of(self.raw)

    def rows(self):
        """The rows of a list, each a dict of our names."""
        found = self["rows"] or []
        names = self.cx.profile.operation(self.operation).rows
        return [Row({ours: row.get(theirs) for ours, theirs in names.items()}) for row in found]


class Row(dict):
    """A row of a list. What the profile does not name cannot be tested."""

    def __missing__(self, name):
        raise Cannot(f"`list` tells no `{name}`")


class Pending:
    """A tool call under way."""

    def __init__(self, cx, operation, call):
        self.cx, self.operation, self.call = cx, operation, call

    def wait(self):
        return Result(self.cx, self.operation, self.call, self.call.wait(self.cx.deadline))

    def cancel(self):
        self.call.cancel()

    @property
    def answered(self):
        return self.call.answer is not None


class Context:
    """One case's run. Whatever it starts through the tools carries `mark`, and is swept at the end."""

    def __init__(self, world, case):
        self.world = world
        self.profile = world.profile
        self.mark = f"{world.mark}.{case.topic}.{case.name}.call."
        self.folder = Path(tempfile.mkdtemp(prefix=f"{case.topic}-{case.name}-", dir=world.folder))
        self.state = self.folder / "state"
        self.state.mkdir()
        self.servers = []
        self.children = []
        self.limit = case.limit
        self.deadline = time.monotonic() + case.limit
        self._server = None

    # The server.

    @property
    def server(self):
        if self._server is None:
            self.start_server()
        return self._server

    def start_server(self, env=None, terminal=None):
        """A fresh one, with what an earlier one of this case has stored. The clock starts when it is ready."""
        mark = f"{self.world.mark}.server{len(self.servers)}.{self.folder.name}."
        self._server = self.world.connect(self.state, mark, env or {}, terminal)
        self.servers.append(self._server)
        began = time.monotonic()
        self._server.handshake(began + 60)
        self.deadline += time.monotonic() - began
        return self._server

    def close(self):
        for server in self.servers:
            server.close()
        for child in self.children:
            child.kill()
            child.wait()
        left = processes.sweep(self.mark) if self.world.sees else []
        shutil.rmtree(self.folder, ignore_errors=True)
        return left

    # Calls.

    def begin(self, operation, mark="", **args):
        return Pending(self, operation, self.server.request("tools/call", self.params(operation, mark, args)))

    def call(self, operation, mark="", **args):
        return self.begin(operation, mark, **args).wait()

    def run(self, command, **args):
        return self.call("run", command=command, **args)

    def start(self, command, **args):
        """Starts a job and returns its id."""
        result = self.call("start", command=command, **args)
        check(not result.refused, f"the job was not started: {result.text[:200]}")
        check(result["id"], f"the job has no id: {result.raw}")
        return result["id"]

    def params(self, operation, mark, args):
        """The parameters of `tools/call`, the mark in them wherever it fits."""
        args, mark = dict(args), self.mark + mark
        if operation in ("run", "start"):
            if self.profile.takes(operation, "env"):
                args["env"] = {"SHELL_SUITE": mark} | args.get("env", {})
            elif isinstance(args.get("command"), str):
                args["command"] = f"export SHELL_SUITE={mark}; {args['command']}"
        return {"name": self.profile.operation(operation).tool, "arguments": self.profile.arguments(operation, args)}

    def call_raw(self, operation, arguments):
        """A tool call with arguments that no profile would write."""
        params = {"name": self.profile.operation(operation).tool, "arguments": arguments}
        return Pending(self, operation, self.server.request("tools/call", params)).wait()

    def still_answers(self):
        method = "ping" if self.server.era == wire.LEGACY else "server/discover"
        answer = self.server.request(method, {}).wait(self.deadline)
        check("result" in answer, f"`{method}` is refused: {answer.get('error')}")

    # Jobs, by whatever the server has for reading.

    def ended(self, id):
        """The last reading of a job once it has ended."""
        return self.until(lambda: self._reading(id, lambda reading: reading["state"] != "running"), f"job {id} ends")

    def output(self, id):
        """All of a job's output, page by page."""
        if not self.profile.takes("read", "offset"):
            return self.call("read", id=id)["output"]
        pages, offset = [], 0
        while True:
            page = self.call("read", id=id, offset=offset)
            pages.append(page["output"] or "")
            if page["next_offset"] in (None, offset):
                return "".join(pages)
            offset = page["next_offset"]

    def shows(self, id, text):
        """Waits until a job has written `text`. Returns everything it has written."""
        from_start = {"offset": 0} if self.profile.takes("read", "offset") else {}
        seen = []

        def look():
            if from_start:
                seen.clear()
            seen.append(self.call("read", id=id, **from_start)["output"] or "")
            return text in "".join(seen)

        self.until(look, f"job {id} shows `{text}`")
        return "".join(seen)

    def _reading(self, id, good):
        reading = self.call("read", id=id)
        check(not reading.refused, f"job {id} cannot be read: {reading.text[:200]}")
        return reading if good(reading) else None

    def listed(self, id):
        """The row of a job in the list."""
        row = next((row for row in self.call("list").rows() if str(row["id"]) == str(id)), None)
        check(row is not None, f"job {id} is not in the list")
        return row

    # Processes.

    def alive(self, mark=""):
        if not self.world.sees:
            raise Cannot("the server's processes cannot be seen from here")
        return processes.carrying(self.mark + mark)

    def appears(self, count=1, mark=""):
        return self.until(
            lambda: len(found := self.alive(mark)) >= count and found, f"{count} processes of the call appear"
        )

    def vanishes(self, after, mark=""):
        self.alive(mark)
        if not self.wait_until(lambda: processes.nobody_carries(self.mark + mark)):
            raise Failed(f"{SOON} s after {after} there still run {processes.describe(self.alive(mark))}")

    # Waiting.

    def until(self, condition, what, seconds=None):
        found = self.wait_until(condition, seconds)
        if not found:
            raise Failed(f"waited in vain: {what}")
        return found

    def wait_until(self, condition, seconds=None):
        """Looks again and again; the last value, true or not."""
        deadline = min(self.deadline, time.monotonic() + (seconds or SOON))
        while True:
            found = condition()
            if found or time.monotonic() > deadline:
                return found
            time.sleep(0.04)

    # Files that commands wait for.

    def flag(self, name="flag"):
        """A path that does not exist yet, and the words that make a shell wait until it does."""
        path = self.folder / name
        return path, f"until [ -e {path} ]; do sleep 0.1; done"

    def file(self, name, content="", mode=0o644):
        path = self.folder / name
        path.write_text(content)
        os.chmod(path, mode)
        return path


def check(truth, message):
    if not truth:
        raise Failed(message)


def equal(actual, wanted, what):
    check(actual == wanted, f"{what} is {shorten(actual)}, not {shorten(wanted)}")


def shorten(value):
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:70]}…{text[-40:]} ({len(text)} characters)"
