"""A child of chaos-host with the Python SDK: calls tools until stdin ends, and prints what came of each call as a line of JSON.

    python child.py LABEL REVISION PROGRAM
"""

import itertools
import json
import sys
import time
import warnings

import anyio
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

# What the newest revision deprecates is what the older ones are made of.
warnings.simplefilter("ignore", MCPDeprecationWarning)

LABEL, REVISION, PROGRAM = sys.argv[1:]
WORKERS = 3
# A call that was not sent waits for a host for 30 s, and then it is told so.
DEADLINE_SECONDS = 40

numbers = itertools.count(1)


async def main():
    # The SDK passes on hardly any variable, so the proxy finds its identity by the processes above it.
    server = StdioServerParameters(command=PROGRAM, args=["proxy"])
    mode = "auto" if REVISION == "2026-07-28" else "legacy"
    async with Client(server, mode=mode, read_timeout_seconds=3600, message_handler=on_message) as client:
        if client.protocol_version != REVISION:
            say(wrong=f"it speaks {client.protocol_version}")
        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            async with anyio.create_task_group() as notes:
                for _ in range(WORKERS):
                    notes.start_soon(note, client, stop)
                tasks.start_soon(wait, client)
                await anyio.to_thread.run_sync(sys.stdin.buffer.read)
                stop.set()
            tasks.cancel_scope.cancel()
    say(done=True)


async def on_message(message):
    if isinstance(message, Exception):
        say(wrong=f"{type(message).__name__}: {message}")


async def note(client, stop):
    """Notes keys, one after the other."""
    while not stop.is_set():
        key = f"{LABEL}-{next(numbers)}"
        begin = time.monotonic()
        outcome = {"wrong": "it was not answered in time"}
        with anyio.move_on_after(DEADLINE_SECONDS):
            outcome = await call(client, "note", {"key": key})
        say(**outcome, key=key, seconds=time.monotonic() - begin)


async def wait(client):
    """Keeps one call waiting at all times, so that a host never ends without one."""
    while True:
        begin = time.monotonic()
        outcome = await call(client, "wait", {})
        say(**outcome, key="wait", seconds=time.monotonic() - begin)


async def call(client, tool, arguments):
    try:
        result = await client.call_tool(tool, arguments)
        return {"wrong" if result.is_error else "result": result.content[0].text}
    except MCPError as error:
        is_retriable = isinstance(error.data, dict) and error.data.get("retriable") is True
        return {"lost" if is_retriable else "wrong": error.message}
    except Exception as error:
        return {"wrong": f"{type(error).__name__}: {error}"}


def say(**words):
    print(json.dumps(words), flush=True)


anyio.run(main)
