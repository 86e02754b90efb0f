"""A child that stays: connects with its credentials and asks who it is, again and again, and does so anew whenever the host has gone
and another has come. Prints the first answer of each connection. Ends when its credentials are gone or it is refused, and
with 3 if it is somebody else than before."""
import json, os, socket, sys, time

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami", "arguments": {}, "_meta": {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}}


def visit(credentials, known):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(credentials["socket"])
    lines = connection.makefile("rw", encoding="utf-8", newline="\n")
    print(json.dumps({"lmcp_identity": credentials["identity"]}), file=lines, flush=True)
    is_first = True
    for line in lines:
        message = json.loads(line)
        if "error" in message:
            print(line, end="", flush=True)
            sys.exit()
        if message.get("id") == 1:
            found = message["result"]["structuredContent"]["id"]
            if is_first:
                print(line, end="", flush=True)
            if known.setdefault("id", found) != found:
                sys.exit(3)
            is_first = False
            time.sleep(0.01)
        if message.get("method") is None:
            print(json.dumps(CALL), file=lines, flush=True)


known = {}
while True:
    try:
        visit(json.load(open(os.environ["LMCP_IDENTITY_FILE"])), known)
    except FileNotFoundError as missing:
        if missing.filename:
            sys.exit()
    except (OSError, ValueError):
        pass
    time.sleep(0.01)
