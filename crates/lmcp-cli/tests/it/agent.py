"""What an agent does: starts the server of its configuration, which is `lmcp proxy`, and calls tools.

    agent.py LMCP TOOL ARGUMENTS [TOOL ARGUMENTS]... [wait]

Prints each result, or error, as a line of JSON; then `ready` and waits for ever, if asked to."""
import json, subprocess, sys, time

program, words = sys.argv[1], sys.argv[2:]
waits = words[-1:] == ["wait"]
if waits:
    words.pop()
server = subprocess.Popen([program, "proxy"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def ask(id, method, params):
    request = {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta}}
    server.stdin.write(json.dumps(request).encode() + b"\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    return answer.get("result") or answer["error"]


print(json.dumps([tool["name"] for tool in ask(0, "tools/list", {})["tools"]]), flush=True)
for number, (tool, arguments) in enumerate(zip(words[::2], words[1::2])):
    print(json.dumps(ask(number + 1, "tools/call", {"name": tool, "arguments": json.loads(arguments)})), flush=True)
if waits:
    print("ready", flush=True)
    time.sleep(600)
server.stdin.close()
sys.exit(server.wait())
