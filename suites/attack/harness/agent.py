"""Programs under `lmcp run`: a child of a host, which knows its identity, and what such a child might try."""

import json

from driver.case import check

# What every child's script begins with. `LMCP` is the binary, `say` prints a line for the case.
PRELUDE = """
import json, os, socket, subprocess, sys, time
LMCP = sys.argv[1]
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}

def say(**words):
    print(json.dumps(words), flush=True)

def request(id, method, params):
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": META}}) + "\\n"

def credentials():
    with open(os.environ["LMCP_IDENTITY_FILE"]) as file:
        return json.load(file)

def proxy(env=None, before=(), seconds=15, words=()):
    "What `lmcp proxy` gives its client: the names of the tools, its exit code, what it says."
    try:
        done = subprocess.run([*before, LMCP, "proxy", *words], input=request(1, "tools/list", {}), text=True,
                              env=env, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        return {"tools": None, "code": None, "said": "no end: " + str(late.stderr or b"")[-300:]}
    tools = None
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        if answer.get("result"):
            tools = sorted(tool["name"] for tool in answer["result"]["tools"])
    return {"tools": tools, "code": done.returncode, "said": (done.stderr + done.stdout)[-300:]}

def greet(token, path, seconds=10):
    "The first line that the gate answers to a token, or nothing."
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(seconds)
    try:
        connection.connect(path)
        connection.sendall(json.dumps({"lmcp_identity": token}).encode() + b"\\n")
        return connection.makefile().readline().strip()
    except OSError as error:
        return f"no way: {error}"
    finally:
        connection.close()
"""


def run_agent(cx, script, *options, seconds=60, env=None):
    """Runs a script as the child of `lmcp run`; the last thing it said."""
    code, out, err = cx.finish(agent_command(cx, script, *options), env=env, seconds=seconds)
    return last_word(out, err)


def agent_command(cx, script, *options):
    path = cx.folder / f"agent-{len(cx.open)}.py"
    path.write_text(PRELUDE + script)
    return [cx.binary, "run", *options, "--", cx.python(), path, cx.binary]


def last_word(out, err):
    lines = [line for line in out.splitlines() if line.startswith("{")]
    check(lines, f"the child said nothing: {out[-200:]} {err[-300:]}")
    return json.loads(lines[-1])
