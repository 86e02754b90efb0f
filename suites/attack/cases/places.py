"""Places and users: shared folders, links of others, who may connect, and how a server ends."""

import fcntl
import os
import re
import signal
import socket
import subprocess
import time

from driver import wire
from harness.case import case, check
from harness.users import OWNER, STRANGER

# Asks a server over HTTP for its jobs, as whoever runs it.
ASK = """
import json, sys, urllib.request
meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
call = {"name": "jobs", "arguments": {}, "_meta": meta}
body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
           "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "jobs"}
try:
    print(urllib.request.urlopen(urllib.request.Request(sys.argv[1], body, headers), timeout=10).read().decode())
except OSError as error:
    print("no way:", error)
"""


def give(path, uid):
    os.chown(path, uid, uid)
    return path


def places_of_the_owner(cx):
    """The folders of the case, for a server of an ordinary user."""
    for path in (cx.home, cx.state, cx.runtime, cx.root):
        give(path, OWNER)


@case("D15", "without a token a server serves its own user and root, and nobody else", needs=["root"])
def other_users_are_not_served_without_a_token(cx):
    places_of_the_owner(cx)
    url = f"http://127.0.0.1:{cx.serve(uid=OWNER).port}/mcp"
    answers = {uid: cx.finish([cx.python(), "-c", ASK, url], uid=uid)[1] for uid in (OWNER, STRANGER, None)}
    cx.note(f"the stranger is told: {answers[STRANGER].strip()[:80]}")
    check('"result"' in answers[OWNER], f"its own user is not served: {answers[OWNER][:100]}")
    check('"result"' in answers[None], f"root is not served: {answers[None][:100]}")
    check('"result"' not in answers[STRANGER], "another user is served")


@case("D15", "`--any-local-user` says that all users of the machine may", needs=["root"])
def other_users_are_served_when_the_operator_says_so(cx):
    places_of_the_owner(cx)
    url = f"http://127.0.0.1:{cx.serve('--any-local-user', uid=OWNER).port}/mcp"
    answer = cx.finish([cx.python(), "-c", ASK, url], uid=STRANGER)[1]
    check('"result"' in answer, f"another user is not served: {answer[:100]}")


@case("D15", "whoever starts a server without a token must be told who may connect")
def the_start_says_who_may_connect(cx):
    server = cx.serve()
    said = server.log()
    cx.note(said.strip().replace("\n", " | ")[:160])
    check(re.search(r"user|token|anybody|who", said), f"nothing is said: {said}")


@case("D14", "a state folder that is a link of another user is that user's", needs=["root"])
def a_state_folder_by_a_strangers_link_is_refused(cx):
    places_of_the_owner(cx)
    shared = cx.make("shared", 0o1777)
    planted = give(cx.make("planted", 0o777), STRANGER)
    (shared / "state").symlink_to(planted)
    os.lchown(shared / "state", STRANGER, STRANGER)
    expect_refused(cx, [cx.binary, "serve", "--http", "0", "--state-dir", shared / "state"], planted)


@case("D14", "the default place below /var/tmp is no different", needs=["root"])
def a_default_state_folder_by_a_strangers_link_is_refused(cx):
    places_of_the_owner(cx)
    place = f"/var/tmp/lmcp-{OWNER}"
    planted = give(cx.make("planted", 0o777), STRANGER)
    subprocess.run(["rm", "-rf", place], check=True)
    os.symlink(planted, place)
    os.lchown(place, STRANGER, STRANGER)
    try:
        command = [cx.binary, "serve", "--http", "0", "--root", cx.home]
        expect_refused(cx, command, planted, env={"XDG_RUNTIME_DIR": None})
    finally:
        os.unlink(place)


def expect_refused(cx, command, planted, env=None):
    """The server stops, or starts without having put anything into the stranger's folder."""
    server = cx.start(command, uid=OWNER, env=env)
    deadline = time.monotonic() + 5
    while server.poll() is None and time.monotonic() < deadline and not any(planted.iterdir()):
        time.sleep(0.05)
    left = [path.name for path in planted.iterdir()]
    if server.poll() is None:
        server.kill()
    said = server.communicate()[1].decode(errors="replace")
    cx.note(f"exit code {server.returncode}: {said.strip()[:120]}")
    check(not left, f"the server keeps its state in the folder of a stranger: {left}")


@case("D16", "a lock that another user holds in a shared folder must not keep a server from starting", needs=["root"])
def a_strangers_lock_does_not_hold_up_the_start(cx):
    places_of_the_owner(cx)
    shared = cx.make("shared", 0o1777)
    folder = os.open(shared, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    began = time.monotonic()
    try:
        server = cx.serve(http=False, unix=shared / "named.sock", uid=OWNER)
    finally:
        os.close(folder)
    cx.note(f"started after {time.monotonic() - began:.1f} s, beside a lock that is never let go")
    check(server.is_alive(), "the server has ended")


@case("D16", "a name that another user took in /tmp must not keep `serve --unix` from starting", needs=["root"])
def a_squatted_folder_is_told_or_avoided(cx):
    places_of_the_owner(cx)
    place = f"/tmp/lmcp-{OWNER}"
    subprocess.run(["rm", "-rf", place], check=True)
    os.mkdir(place)
    give(place, STRANGER)
    try:
        command = [cx.binary, "serve", "--unix", "--state-dir", cx.state]
        server = cx.start(command, uid=OWNER, env={"XDG_RUNTIME_DIR": None})
        os.set_blocking(server.stderr.fileno(), False)
        said = b""
        deadline = time.monotonic() + 10
        while server.poll() is None and b"listening" not in said and time.monotonic() < deadline:
            said += server.stderr.read() or b""
            time.sleep(0.05)
        said += server.stderr.read() or b""
        cx.note(said.decode(errors="replace").strip()[:150])
        check(b"listening" in said, f"the server does not start: {said.decode(errors='replace')[:200]}")
    finally:
        subprocess.run(["rm", "-rf", place], check=True)


@case("D16", "SIGHUP is what a closed terminal sends: the server ends as with SIGTERM")
def a_hangup_ends_the_server_gracefully(cx):
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        server = cx.serve(unix=True)
        path = server.socket
        code = server.end(number)
        check(code == 0, f"after {signal.Signals(number).name} the exit code is {code}")
        check(not os.path.exists(path), f"after {signal.Signals(number).name} the socket is left")


@case("D16", "a client that takes no answers is an error of the exit code, as the documentation says")
def lost_answers_are_told_by_the_exit_code(cx):
    server = cx.start([cx.binary, "serve", "--stdio", "--state-dir", cx.state], stdin=subprocess.PIPE)
    server.stdout.close()
    request = wire.encode(wire.request(1, "tools/list", {}, wire.MODERN))
    try:
        for _ in range(3):
            server.stdin.write(request)
            server.stdin.flush()
            time.sleep(0.1)
        server.stdin.close()
    except OSError:
        pass
    code = server.wait(10)
    server.stdin = None
    check(code == 1, f"answers were lost, and the exit code is {code}")


@case("D16", "what a killed server made for itself alone is removed by the next start", needs=["user"])
def a_killed_server_leaves_nothing_for_long(cx):
    # There is no place for its state, so it makes one for itself.
    env = {"HOME": "/nonexistent", "XDG_RUNTIME_DIR": None}
    before = set(os.listdir("/tmp")) | set(os.listdir("/var/tmp"))

    def start():
        process = cx.start([cx.binary, "serve", "--stdio"], env=env, stdin=subprocess.PIPE)
        call = wire.request(1, "tools/call", {"name": "shell", "arguments": {"command": "true"}}, wire.MODERN)
        process.stdin.write(wire.encode(call))
        process.stdin.flush()
        process.stdout.readline()
        return process

    def left():
        after = set(os.listdir("/tmp")) | set(os.listdir("/var/tmp"))
        return [name for name in after - before if name.startswith("lmcp-") and is_ours(name)] + os.listdir(cx.temporary)

    first = start()
    first.kill()
    first.wait()
    cx.until_gone(cx.mark, "the server was killed")
    made = left()
    second = start()
    cx.until(lambda: not set(made) & set(left()), f"the next start removes {made}")
    second.stdin.close()
    second.wait(10)
    second.stdin = None
    # The guard of the command may end after the server.
    cx.until(lambda: not left(), "the second server and its command leave nothing")


def is_ours(name):
    """Other servers of this machine may have come and gone meanwhile."""
    for folder in ("/tmp", "/var/tmp"):
        try:
            return os.lstat(f"{folder}/{name}").st_uid == os.geteuid()
        except OSError:
            continue
    return False


@case("held", "a unix socket is its owner's: another user cannot connect", needs=["root"])
def other_users_cannot_open_the_socket(cx):
    places_of_the_owner(cx)
    shared = give(cx.make("open"), OWNER)
    server = cx.serve(http=False, unix=shared / "named.sock", uid=OWNER)
    script = "import socket, sys\ntry:\n socket.socket(socket.AF_UNIX).connect(sys.argv[1])\n print('WORKED')\n"
    script += "except OSError as error:\n print(error)"
    said = cx.finish([cx.python(), "-c", script, server.socket], uid=STRANGER)[1]
    check("WORKED" not in said, "another user connects to the socket")
    with socket.socket(socket.AF_UNIX) as own:
        own.connect(server.socket)


@case("held", "a token that others can read is refused, and a key that they could have read is replaced")
def open_keys_and_tokens_are_not_trusted(cx):
    token = cx.folder / "token"
    token.write_text("0123456789abcdef0123456789abcdef")
    token.chmod(0o644)
    command = [cx.binary, "serve", "--http", "0", "--state-dir", cx.state]
    code, _, said = cx.finish([*command, "--token-file", token], seconds=10)
    check(code == 2, f"a token that all can read is taken, exit code {code}: {said}")
    cx.serve().end()
    key = cx.state / "session.key"
    before = key.read_bytes()
    key.chmod(0o644)
    cx.serve().end()
    check(key.read_bytes() != before, "a key that all could read is still used")
    check(key.stat().st_mode & 0o077 == 0, "others can read the new key")
