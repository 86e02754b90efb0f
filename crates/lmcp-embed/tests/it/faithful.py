"""A child that stays: connects with its credentials, asks who it is, and prints the answer; again whenever the host has gone and
another has come. Ends when its credentials are gone or it is refused."""
import json, os, socket, sys, time

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami", "arguments": {}, "_meta": {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}}

while True:
    try:
        credentials = json.load(open(os.environ["LMCP_IDENTITY_FILE"]))
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(credentials["socket"])
        lines = connection.makefile("rw", encoding="utf-8", newline="\n")
        print(json.dumps({"lmcp_identity": credentials["identity"]}), file=lines)
        print(json.dumps(CALL), file=lines, flush=True)
        for line in lines:
            print(line, end="", flush=True)
            if "error" in json.loads(line):
                sys.exit()
    except FileNotFoundError as missing:
        if missing.filename:
            sys.exit()
    except OSError:
        pass
    time.sleep(0.01)
