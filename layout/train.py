"""Uses a program in the ways that people use it, so that the compiler learns which paths are taken often.

The program is built to count how often it takes each path, and writes the counts when it ends. `./dist` gives them to
the compiler. The mix is wide on purpose: every revision, every transport, answers and errors, the tools of a host, the
bridge, the hub and the proxy. None of it is the load of the benchmark.

    LLVM_PROFILE_FILE=counts-%m.profraw python3 layout/train.py PROGRAM
"""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from messages import ACCEPT, free_port, is_echo, modern, modern_headers, opening, wait_for

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
# How often each mix is sent, and by how many clients at once over HTTP.
ROUNDS, CLIENTS = 60, 6
# Answers over HTTP that a call should not have got.
failures = []
# A wait for a program that hangs; a healthy one takes seconds.
PATIENCE = 120


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"LMCP_STATE_DIR": os.path.join(folder, "state"), "HOME": folder}
        os.chdir(folder)
        if is_echo(program):
            on_stdio([program, "stdio"], plain_calls("echo"))
            over_http([program, "http"], plain_calls("echo"))
        else:
            train_host(program, Path(folder))
            train_others(program, Path(folder))
    if failures:
        raise SystemExit(failures[0])


def train_host(program, folder):
    calls = host_calls(folder)
    on_stdio([program, "serve", "--stdio"], calls)
    over_http([program, "serve", "--http"], calls)
    on_stdio([program, "serve", "--demo", "--stdio"], plain_calls("echo"))
    over_http([program, "serve", "--demo", "--http"], plain_calls("echo"))


def train_others(program, folder):
    """What stands between a client and a server."""
    demo = [program, "serve", "--demo", "--stdio"]
    over_http([program, "bridge", "--http", "{port}", "--", *demo], plain_calls("echo"))
    config = folder / "hub.toml"
    servers = [f"[servers.{name}]\ncommand = {json.dumps(program)}\nargs = {json.dumps(demo[1:])}\n" for name in ("a", "b")]
    config.write_text("\n".join(servers))
    config.chmod(0o600)
    over_http([program, "hub", "--config", str(config), "--http"], plain_calls("a__echo") + plain_calls("b__echo"))
    address = str(folder / "serve.sock")
    with running([program, "serve", "--demo", "--unix", address]) as server:
        wait_for_file(address, server)
        on_stdio([program, "proxy", address], plain_calls("echo"))
        for _ in range(5):
            subprocess.run([program, "call", "--at", address, "echo", "text=hello"], stdout=subprocess.DEVNULL, check=True)


def plain_calls(tool):
    """Lists, calls of a tool that does nothing else, and mistakes."""
    return [
        ("tools/list", {}),
        *(("tools/call", {"name": tool, "arguments": {"text": text}}) for text in texts()),
        ("tools/call", {"name": tool, "arguments": {"text": 5}}),
        ("tools/call", {"name": tool, "arguments": {}}),
        ("tools/call", {"name": "nothing", "arguments": {}}),
        ("no/such", {}),
        ("resources/list", {}),
    ]


def texts():
    yield "hello"
    yield "Größe, 大きさ, \"quoted\"\n\tand more"
    yield "word " * 40
    yield "line\n" * 800


def host_calls(folder):
    """The tools of a host, as an agent uses them: mostly reading."""
    for number in range(20):
        (folder / f"file{number}.py").write_text(f"def f{number}(x):\n    return x + {number}\n" * 40)
    place = str(folder)

    def call(name, **arguments):
        return ("tools/call", {"name": name, "arguments": arguments})

    return [
        ("tools/list", {}),
        *(call("read_file", path=f"{place}/file{number}.py", limit=30) for number in range(6)),
        call("read_file", path=f"{place}/missing.py"),
        call("list_dir", path=place),
        call("search_files", pattern="return x", path=place),
        call("write_file", path=f"{place}/new.txt", content="one\ntwo\nthree\n"),
        call("edit_file", path=f"{place}/new.txt", old_string="two", new_string="2"),
        call("edit_file", path=f"{place}/new.txt", old_string="nowhere", new_string="2"),
        call("shell", command="echo hi; exit 1"),
        call("jobs"),
        call("read_file", path=f"{place}/file1.py", limit="many"),
    ]


def on_stdio(command, calls):
    """One client of 2026-07-28, then one of each older revision; some messages one by one, the rest at once."""
    for revision in [None, *REVISIONS]:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for message in opening(revision) if revision else []:
            send(child, message)
            if "id" in message:
                child.stdout.readline()
        numbered = [numbered_call(revision, number, call) for number, call in enumerate(calls * (ROUNDS // 10))]
        for message in numbered[: len(calls)]:
            send(child, message)
            answer_of(child, message["id"])
        rest = numbered[len(calls) :]
        writer = threading.Thread(target=lambda: [send(child, message) for message in rest])
        writer.start()
        for _ in rest:
            child.stdout.readline()
        writer.join()
        child.stdin.close()
        child.wait(timeout=PATIENCE)


def numbered_call(revision, number, call):
    if revision is None:
        return modern(number, *call)
    return {"jsonrpc": "2.0", "id": number, "method": call[0], "params": call[1]}


def send(child, message):
    child.stdin.write(json.dumps(message).encode() + b"\n")
    child.stdin.flush()


def answer_of(child, number):
    while json.loads(child.stdout.readline()).get("id") != number:
        pass


def over_http(command, calls):
    """Clients of all revisions, several at once, each on a connection of its own."""
    port = free_port()
    has_place = "{port}" in command
    command = [str(port) if word == "{port}" else word for word in command] if has_place else [*command, str(port)]
    with running(command) as server:
        wait_for(port, server)
        revisions = [None, *REVISIONS, None, None, "2025-11-25"]
        clients = [threading.Thread(target=http_client, args=(port, revision, calls)) for revision in revisions]
        for first in range(0, len(clients), CLIENTS):
            for client in clients[first : first + CLIENTS]:
                client.start()
            for client in clients[first : first + CLIENTS]:
                client.join()


def http_client(port, revision, calls):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    session = {}

    def post(message, headers):
        connection.request("POST", "/mcp", json.dumps(message).encode(), headers)
        response = connection.getresponse()
        answer = response.read()
        if message.get("params", {}).get("arguments") == {"text": "hello"} and b"hello" not in answer:
            # A program that only refuses would teach the compiler the wrong paths.
            failures.append(f"{message} was answered with {response.status} {answer.decode()}")
        return response.headers

    for message in opening(revision) if revision else []:
        opened = post(message, {**ACCEPT, **session}).get("Mcp-Session-Id")
        session = {"Mcp-Session-Id": opened, "MCP-Protocol-Version": revision} if opened else session
    for number, call in enumerate(calls * (ROUNDS // 5 if revision else ROUNDS // 3)):
        message = numbered_call(revision, number, call)
        post(message, {**ACCEPT, **session} if revision else modern_headers(message))
    connection.close()


@contextlib.contextmanager
def running(command):
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield child
    finally:
        # Only a program that ends by itself writes its counts.
        child.send_signal(signal.SIGINT)
        child.wait(timeout=PATIENCE)


def wait_for_file(path, child):
    until = threading.Event()
    for _ in range(PATIENCE * 10):
        if os.path.exists(path):
            return
        if child.poll() is not None:
            break
        until.wait(0.1)
    raise SystemExit("the program did not start")


main()
