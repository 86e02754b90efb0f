"""Calls tools through a proxy with the Python SDK until stdin ends, and prints what came of it as lines of JSON.
Bytes on stdin are counted, so that whoever wrote one knows what came after it.

    python drive.py REVISION PROGRAM SOCKET
"""

import json
import sys
import warnings

import anyio
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

# What the newest revision deprecates is what the older ones are made of.
warnings.simplefilter("ignore", MCPDeprecationWarning)

REVISION, PROGRAM, SOCKET = sys.argv[1:]
WORKERS = 8
# Longer than any run: what takes so long was forgotten.
PATIENCE_SECONDS = 600

seen = {"results": 0, "lost": 0, "marks": 0, "wrong": []}


async def main():
    server = StdioServerParameters(command=PROGRAM, args=["proxy", SOCKET])
    mode = "auto" if REVISION == "2026-07-28" else "legacy"
    async with Client(server, mode=mode, read_timeout_seconds=PATIENCE_SECONDS, message_handler=on_message) as client:
        if client.protocol_version != REVISION:
            seen["wrong"].append(f"it speaks {client.protocol_version}")
        async with anyio.create_task_group() as tasks:
            for worker in range(WORKERS):
                tasks.start_soon(repeat, client, "echo", {"text": f"worker {worker}"}, f"worker {worker}")
            # This call waits at all times, so that a server is never killed without one.
            tasks.start_soon(repeat, client, "wait", {"seconds": 300}, None)
            while await anyio.to_thread.run_sync(sys.stdin.buffer.read, 1):
                seen["marks"] += 1
            tasks.cancel_scope.cancel()
        # After all that it is still the same connection.
        await call(client, "echo", {"text": "last"}, "last")
    report(done=True)


async def on_message(message):
    if isinstance(message, Exception):
        seen["wrong"].append(f"{type(message).__name__}: {message}")


async def repeat(client, tool, arguments, expected):
    while not seen["wrong"]:
        await call(client, tool, arguments, expected)


async def call(client, tool, arguments, expected):
    try:
        result = await client.call_tool(tool, arguments)
        text = result.content[0].text
        if result.is_error or text != expected:
            seen["wrong"].append(f"{tool}: {text}")
        seen["results"] += 1
    except MCPError as error:
        if isinstance(error.data, dict) and error.data.get("retriable") is True:
            seen["lost"] += 1
        else:
            seen["wrong"].append(f"{tool}: {error.code} {error.message}")
    except Exception as error:
        seen["wrong"].append(f"{tool}: {type(error).__name__}: {error}")
    report()


def report(done=False):
    print(json.dumps({**seen, "done": done}), flush=True)


anyio.run(main)
