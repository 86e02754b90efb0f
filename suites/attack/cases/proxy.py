"""`lmcp proxy` and `lmcp run`: an identity is never lost into more rights, and a hostile server hurts no client."""

import json
import os
import socket
import threading
import time

from driver import processes, wire
from harness import machine
from harness.agent import agent_command, run_agent
from harness.case import Skip, case, check

READ_ONLY_TOOLS = {"read_file", "list_dir", "search_files", "fetch", "web_search", "systeminfo", "whoami"}
STRIPPED = "env = {name: os.environ[name] for name in ('HOME', 'PATH', 'LANG', 'ATTACK_SUITE') if name in os.environ}\n"


# Without a runtime folder the proxy looks in /tmp/lmcp-UID. For root that may be somebody's real one, so two of the
# cases below are for an ordinary user.


def summary(found):
    if found["tools"]:
        return f"{len(found['tools'])} tools"
    return f"no tools, exit code {found['code']}: {found['said'][-120:]!r}"


def expect_no_more_rights(found):
    tools = set(found["tools"] or ())
    check(tools <= READ_ONLY_TOOLS, f"the child of a read-only host is offered {sorted(tools - READ_ONLY_TOOLS)}")


@case("D19", "in the stripped environment that SDKs give, the identity is found or nothing served", needs=["user"])
def a_stripped_environment_gives_no_more_rights(cx):
    found = run_agent(cx, STRIPPED + "say(**proxy(env))", "--read-only")
    cx.note(summary(found))
    expect_no_more_rights(found)


@case("D19", "the same where the runtime folder is known: the user's own server must not be started")
def a_known_runtime_folder_gives_no_more_rights(cx):
    script = STRIPPED + "env['XDG_RUNTIME_DIR'] = os.environ['XDG_RUNTIME_DIR']\nsay(**proxy(env))"
    found = run_agent(cx, script, "--read-only")
    cx.note(summary(found))
    expect_no_more_rights(found)


@case("D19", "a wrapper between the agent and its server changes nothing", needs=["user"])
def a_wrapper_gives_no_more_rights(cx):
    script = "home = 'HOME=' + os.environ['HOME']\n"
    script += "say(**proxy(before=['env', '-i', home, 'PATH=/usr/bin:/bin', 'sh', '-c', '\"$@\"; exit $?', 'sh']))"
    found = run_agent(cx, script, "--read-only")
    cx.note(summary(found))
    expect_no_more_rights(found)


@case("held", "with its environment a child gets what its host offers, and no more")
def a_child_gets_the_tools_of_its_host(cx):
    found = run_agent(cx, "say(**proxy())", "--read-only")
    check(set(found["tools"] or ()) == READ_ONLY_TOOLS, f"it is offered {found}")


@case("D20", "a proxy in a pid namespace of its own gets the same verdict as outside of one")
def a_pid_namespace_changes_no_verdict(cx):
    script = "before = ['unshare', '--user', '--map-current-user', '--pid', '--fork', '--mount-proc']\n"
    script += "able = subprocess.run([*before, 'true'], capture_output=True).returncode == 0\n"
    script += "say(**proxy(before=before) if able else {'skip': 1})"
    found = run_agent(cx, script, "--read-only")
    if "skip" in found:
        raise Skip("this user may make no pid namespace")
    cx.note(summary(found))
    check(found["tools"], f"the proxy is not let in: {found['said']}")
    expect_no_more_rights(found)


@case("D20", "the same with the namespace of a container that root made", needs=["root"])
def a_pid_namespace_of_root_changes_no_verdict(cx):
    found = run_agent(cx, "say(**proxy(before=['unshare', '--pid', '--fork', '--mount-proc']))", "--read-only")
    cx.note(summary(found))
    check(found["tools"], f"the proxy is not let in: {found['said']}")
    expect_no_more_rights(found)


@case("D27", "a proxy in a user namespace, told nothing, is who it is outside, or is refused", needs=["user"])
def a_user_namespace_gives_no_more_rights(cx):
    cover = ["sh", "-c", 'exec 9<"$0" && mount -t tmpfs none /tmp && exec /proc/self/fd/9 "$@"']
    apart = [["-U"], ["--map-user=65534"], ["--map-user=5555"], ["-Uc"], ["-Uc", "unshare", "-Uc"]]
    apart = [["unshare", *options] for options in apart] + [["unshare", "-Ucm", "--keep-caps", *cover]]
    script = STRIPPED + f"able = subprocess.run(['unshare', '-U', 'true'], capture_output=True).returncode == 0\n"
    script += f"say(found=[proxy(env, before=before) for before in {apart!r}] if able else None)"
    found = run_agent(cx, script, "--read-only", seconds=120)["found"]
    if found is None:
        raise Skip("this user may make no user namespace")
    for options, each in zip(apart, found):
        cx.note(f"{' '.join(options[1:3])}: {summary(each)}")
        check(each["tools"] or each["code"] == 77, f"{options}: the proxy is neither let in nor refused: {each}")
        expect_no_more_rights(each)


@case("D21", "starting and ending one host must not touch the credentials of another's children")
def another_host_touches_no_credentials(cx):
    script = "before = proxy()\n"
    script += "env = {name: value for name, value in os.environ.items() if not name.startswith('LMCP_')}\n"
    script += "subprocess.run([LMCP, 'run', '--', 'true'], env=env)\n"
    script += "say(there=os.path.exists(os.environ['LMCP_IDENTITY_FILE']), before=before, after=proxy(seconds=10))"
    found = run_agent(cx, script, "--read-only")
    check(found["before"]["tools"], f"it did not work before: {found['before']}")
    check(found["there"], "the identity file is gone")
    check(found["after"]["tools"], f"it does not work any more: {found['after']}")


@case("D21", "a host that was killed leaves children; the next host must not take their credentials")
def credentials_of_living_children_survive_a_killed_host(cx):
    script = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    script += "say(file=os.environ['LMCP_IDENTITY_FILE'], pid=os.getpid())\ntime.sleep(300)"
    host = cx.start(agent_command(cx, script, "--read-only"))
    said = json.loads(host.stdout.readline())
    host.kill()
    host.wait()
    cx.finish([cx.binary, "run", "--", "true"])
    check(processes.exists(said["pid"]), "the child has ended, so this shows nothing")
    check(os.path.exists(said["file"]), "the next host removed the credentials of a child that lives")


@case("D16", "connections that say nothing must not keep a child with a good token out of the gate")
def silent_connections_do_not_close_the_gate(cx):
    script = """
mine, crowd = credentials(), []
for _ in range(300):
    connection = socket.socket(socket.AF_UNIX)
    connection.setblocking(False)
    try:
        connection.connect(mine["socket"])
        crowd.append(connection)
    except OSError:
        connection.close()
let_in = sum("lmcp_welcome" in greet(mine["identity"], mine["socket"]) for _ in range(20))
say(crowd=len(crowd), let_in=let_in)
"""
    found = run_agent(cx, script, "--read-only")
    cx.note(f"beside {found['crowd']} silent connections {found['let_in']} of 20 were let in")
    check(found["let_in"] == 20, f"only {found['let_in']} of 20 good greetings were let in")


@case("held", "a token is worth nothing to a process that is not the child it was made for")
def a_stolen_token_opens_no_gate(cx):
    script = "say(**credentials())\ntime.sleep(300)"
    victim = cx.start(agent_command(cx, script, "--read-only"))
    stolen = json.loads(victim.stdout.readline())
    thief = f"say(said=greet({stolen['identity']!r}, {stolen['socket']!r}))"
    found = run_agent(cx, thief, "--read-only")
    check("lmcp_welcome" not in found["said"], f"a child of another host was let in: {found['said']}")
    with socket.socket(socket.AF_UNIX) as own:
        own.connect(stolen["socket"])
        own.sendall(json.dumps({"lmcp_identity": stolen["identity"]}).encode() + b"\n")
        own.settimeout(10)
        said = own.recv(4096)
    check(b"lmcp_welcome" not in said, f"a process outside was let in: {said}")
    cx.note(f"told: {said.decode(errors='replace').strip()[:100]}")


@case("held", "a token ends with the child it was made for")
def a_token_of_a_dead_child_opens_no_gate(cx):
    first = run_agent(cx, "say(**credentials())", "--read-only")
    found = run_agent(cx, f"say(said=greet({first['identity']!r}, credentials()['socket']))", "--read-only")
    check("lmcp_welcome" not in found["said"], f"an old token was taken: {found['said']}")
    for word in ("", "x", first["identity"][:-1], first["identity"] * 50):
        found = run_agent(cx, f"say(said=greet({word!r}, credentials()['socket']))", "--read-only")
        check("lmcp_welcome" not in found["said"], f"the token {word[:20]!r} was taken")


class HostileServer:
    """Listens on a unix socket, answers the handshake, and then does what it was made for."""

    def __init__(self, path, behave):
        self.behave = behave
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(4)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        try:
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
        except OSError:
            pass

    def _serve(self, connection):
        try:
            message = json.loads(connection.makefile("rb").readline())
            result = {"protocolVersion": wire.LEGACY, "capabilities": {"tools": {}}, "serverInfo": wire.CLIENT}
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            connection.sendall(json.dumps(answer).encode() + b"\n")
            self.behave(connection)
        except (OSError, ValueError):
            pass
        finally:
            connection.close()

    def close(self):
        self.listener.close()


def start_proxy_to(cx, behave):
    """A proxy in front of a hostile server, after the handshake."""
    path = cx.folder / "hostile.sock"
    cx.keep(HostileServer(path, behave))
    process = cx.start([cx.binary, "proxy", path], stdin=-1)
    initialize = wire.initialize_params() | {"capabilities": {"elicitation": {}, "sampling": {}, "roots": {}}}
    for message in ({"id": 1, "method": "initialize", "params": initialize}, {"method": "notifications/initialized"}):
        process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
    process.stdin.flush()
    return process


def flood(seconds):
    """Questions without end, none of whose answers is read."""

    def behave(connection):
        deadline, number = time.monotonic() + seconds, 0
        block = 500
        while time.monotonic() < deadline:
            question = {"jsonrpc": "2.0", "method": "elicitation/create", "params": {"message": "x" * 400}}
            connection.sendall(b"".join(wire.encode(question | {"id": number + n}) for n in range(block)))
            number += block

    return behave


@case("D13", "a server that floods questions and reads no answers must not grow the proxy")
def a_flood_of_questions_does_not_grow_the_proxy(cx):
    process = start_proxy_to(cx, flood(4))
    answered = [0]

    def answer_all():
        try:
            for line in process.stdout:
                message = json.loads(line)
                if "method" in message and "id" in message:
                    result = {"action": "accept", "content": {"x": "y" * 2000}}
                    process.stdin.write(wire.encode({"jsonrpc": "2.0", "id": message["id"], "result": result}))
                    process.stdin.flush()
                    answered[0] += 1
        except (OSError, ValueError):
            pass

    threading.Thread(target=answer_all, daemon=True).start()
    deadline = time.monotonic() + 4
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
    peak = machine.peak_bytes(process.pid)
    cx.note(f"{answered[0]} questions answered, peak {machine.mib(peak)}")
    check(peak < 32 * machine.MIB, f"the proxy has grown to {machine.mib(peak)} in 4 s")


@case("D13", "a server that floods questions must not grow a proxy whose client does not answer")
def a_flood_without_answers_does_not_grow_the_proxy(cx):
    process = start_proxy_to(cx, flood(4))
    threading.Thread(target=lambda: [None for _ in process.stdout], daemon=True).start()
    deadline = time.monotonic() + 4
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
    peak = machine.peak_bytes(process.pid)
    cx.note(f"peak {machine.mib(peak)}")
    check(peak < 32 * machine.MIB, f"the proxy has grown to {machine.mib(peak)} in 4 s")


@case("D13", "what is no JSON must not reach a client that trusts the proxy to speak the protocol")
def what_is_no_message_is_not_passed_on(cx):
    rubbish = [b"not json at all", b"\x1b[2J\x1b[31mred", b"{", b"[1,2", b"\xff\xfe\xfd", b"null", b"42"]

    def behave(connection):
        connection.sendall(b"\n".join(rubbish) + b"\n")
        last = wire.notification("notifications/message", {"level": "info", "data": "the last"})
        connection.sendall(wire.encode(last))
        time.sleep(10)

    process = start_proxy_to(cx, behave)
    seen = []
    for line in process.stdout:
        seen.append(line)
        if b"the last" in line:
            break
    for line in seen:
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        check(isinstance(message, dict), f"the client was given {line[:60]!r}")


@case("held", "a server that is killed again and again is not noticed by the client of a proxy", limit=90)
def a_proxy_survives_kills_of_its_server(cx):
    path = cx.folder / "named.sock"
    server = cx.serve(http=False, unix=path)
    client = cx.proxy(path)
    for number in range(6):
        answer = client.call("list_dir", path=str(cx.root))
        check(not answer.refused, f"after {number} kills: {answer.text[:100]}")
        server.kill()
        server = cx.serve(http=False, unix=path)
    check(client.is_alive(), "the proxy has ended")
