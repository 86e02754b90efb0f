"""A client of a hub on a unix socket, and what can be seen of processes from outside."""

import asyncio
import contextlib
import json
import time
from pathlib import Path

OPENING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "storm", "version": "0"}}


class Client:
    """One connection: many calls at a time, each with the answer that carries its id."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.waiting, self.last = {}, 0
        # Answers that nobody waits for any more, or that are the second of their id.
        self.stray = 0
        self.reading = asyncio.create_task(self.read())

    @classmethod
    async def connect(cls, path):
        reader, writer = await asyncio.open_unix_connection(str(path), limit=1 << 24)
        return await cls(reader, writer).open()

    @classmethod
    async def start(cls, *command):
        """The same on the standard input and output of a process, which is `client.process`."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, limit=1 << 24
        )
        client = cls(process.stdout, process.stdin)
        client.process = process
        return await client.open()

    async def open(self):
        await self.ask("initialize", OPENING)
        self.send({"method": "notifications/initialized"})
        return self

    def send(self, message):
        self.writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def ask(self, method, params):
        """The whole answer."""
        if self.reading.done():
            raise ConnectionError("the connection was closed")
        self.last += 1
        id, answer = self.last, asyncio.get_running_loop().create_future()
        self.waiting[id] = answer
        self.send({"id": id, "method": method, "params": params})
        await self.writer.drain()
        return await answer

    async def read(self):
        with contextlib.suppress(ConnectionError):
            while line := await self.reader.readline():
                self.heard(json.loads(line))
        for answer in self.waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the connection was closed"))

    def heard(self, message):
        if "method" in message:
            return
        answer = self.waiting.pop(message.get("id"), None)
        if answer is None or answer.done():
            self.stray += 1
        else:
            answer.set_result(message)

    async def close(self):
        self.reading.cancel()
        self.writer.close()


class Calls:
    """What came of calls."""

    def __init__(self):
        self.results = self.errors = 0
        self.times, self.wrong, self.longest = [], [], 0.0
        self.pids = {}

    async def call(self, client, server, nonce, deadline):
        """Calls `echo` of a server. The answer must be that server's, and carry the nonce."""
        began = time.monotonic()
        params = {"name": f"{server}__echo", "arguments": {"nonce": nonce}}
        try:
            answer = await asyncio.wait_for(client.ask("tools/call", params), deadline)
        except asyncio.TimeoutError:
            return self.wrong.append(f"{server}: no answer within {deadline} s")
        except ConnectionError as error:
            return self.wrong.append(f"{server}: {error}")
        took = time.monotonic() - began
        self.longest = max(self.longest, took)
        if "error" in answer:
            self.errors += 1
            return answer["error"]
        self.results += 1
        self.times.append(took)
        name, _, rest = answer["result"]["content"][0]["text"].partition(":")
        got, _, pid = rest.partition(":")
        if (name, got) != (server, nonce):
            self.wrong.append(f"{server} was told {nonce}, and the answer is {answer}")
        else:
            self.pids[server] = int(pid)
        return None


def percentile(times, part):
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else float("nan")


def rss(pid):
    """In MB."""
    return field(f"/proc/{pid}/status", "VmRSS:")


def pss(pid):
    """In MB; what processes share counts once."""
    return field(f"/proc/{pid}/smaps_rollup", "Pss:")


def field(path, name):
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise KeyError(name)


def descendants(pid, word):
    """Processes below this one with the word among their arguments."""
    found, below = [], [pid]
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of a program may hold anything, a bracket too.
            parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
        except OSError:
            pass
    while below:
        for child in parents.get(below.pop(), []):
            below.append(child)
            try:
                if word in Path(f"/proc/{child}/cmdline").read_text().split("\0"):
                    found.append(child)
            except OSError:
                pass
    return found
