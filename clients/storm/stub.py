"""A small MCP server on stdio with one tool, which answers `NAME:NONCE:PID`, and one of several ways to misbehave.

    python3 -S -E stub.py NAME KIND [SECONDS]

SECONDS is how long a hanging call hangs: longer than the hub waits.
"""

import json
import os
import random
import sys
import time

NAME, KIND = sys.argv[1:3]
HANGS = float(sys.argv[3]) if len(sys.argv) > 3 else 3600
GOOD = {"type": "object", "properties": {"nonce": {"type": "string"}}}
TOOL = {"name": "echo", "description": "Says who it is, and what it was told.", "inputSchema": GOOD}
LIES = [
    {"name": "text", "inputSchema": "no schema"},
    {"name": "list", "inputSchema": {"type": "array", "items": 5}},
    {"name": "cycle", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}},
    {"name": "", "inputSchema": GOOD},
    {"inputSchema": GOOD},
    "no tool at all",
    {"name": "deep", "inputSchema": {"type": "object", "properties": json.loads('{"a":' * 90 + "{}" + "}" * 90)}},
]


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(id, result):
    say({"jsonrpc": "2.0", "id": id, "result": result})


def refuse(id):
    say({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown method"}})


def end(code):
    sys.stderr.write(f"{NAME} has had enough\n")
    sys.stderr.flush()
    os._exit(code)


def open_session(id):
    capabilities = {"tools": {"listChanged": KIND == "lie"}}
    answer(id, {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": {"name": NAME, "version": "1"}})


def list_tools(id):
    if KIND == "lie":
        answer(id, {"tools": [TOOL, *random.sample(LIES, 4)]})
    else:
        answer(id, {"tools": [TOOL]})


def call(id, params):
    nonce = params.get("arguments", {}).get("nonce", "")
    misbehave(id)
    answer(id, {"content": [{"type": "text", "text": f"{NAME}:{nonce}:{os.getpid()}"}]})
    if KIND == "garbage":
        # Once more, with what nobody asked for.
        answer(id, {"content": [{"type": "text", "text": "the second answer"}]})
    if KIND == "restart" and random.random() < 0.05:
        end(0)


def misbehave(id):
    if KIND == "die" and random.random() < 0.1:
        end(3)
    if KIND == "hang" and random.random() < 0.1:
        time.sleep(HANGS)
    if KIND == "garbage":
        sys.stdout.write('{"jsonrpc": "2.0", "id": \n\x00\xff\n[]\n{"id": 1}\n"text"\n')
        answer(id + 100_000 if isinstance(id, int) else "none", {"content": [{"type": "text", "text": "of nobody"}]})
    if KIND == "flood":
        line = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "debug", "data": "x" * 200}}
        sys.stdout.write((json.dumps(line) + "\n") * 200)
    if KIND == "lie" and random.random() < 0.2:
        say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})


def main():
    if KIND == "flap" and random.random() < 0.5:
        end(1)
    # Bytes that are no text must leave, too.
    sys.stdout.reconfigure(encoding="latin-1")
    for line in sys.stdin:
        message = json.loads(line)
        id, method = message.get("id"), message.get("method")
        if method == "initialize":
            open_session(id)
        elif method == "tools/list":
            list_tools(id)
        elif method == "tools/call":
            call(id, message["params"])
        elif method == "ping":
            answer(id, {})
        elif id is not None and method:
            refuse(id)
        if KIND == "flap" and method == "tools/call" and random.random() < 0.2:
            end(1)


main()
