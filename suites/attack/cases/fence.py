"""Commands behind the fence of `--root`: what they must not reach, by whatever way."""

import json
import os
import signal
import socket

from driver import processes, wire
from harness.case import Skip, case, check
from harness.world import SECRET, token_of

# Runs in a fenced command: connects to a unix socket and calls `shell` there.
DRIVE_SOCKET = """
import json, socket, sys
meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
call = {"name": "shell", "arguments": {"command": "cat " + sys.argv[2]}, "_meta": meta}
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(10)
try:
    connection.connect(sys.argv[1])
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    connection.sendall(json.dumps(message).encode() + b"\\n")
    print(connection.makefile().readline())
except OSError as error:
    print("no way:", error)
"""

# The same over HTTP.
DRIVE_HTTP = """
import json, sys, urllib.request
meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
call = {"name": "shell", "arguments": {"command": "cat " + sys.argv[2]}, "_meta": meta}
body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
           "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "shell"}
try:
    print(urllib.request.urlopen(urllib.request.Request(sys.argv[1], body, headers), timeout=10).read().decode())
except OSError as error:
    print("no way:", error)
"""


def fenced(cx, script, *words):
    """Runs a Python script in a command behind the fence; what it printed."""
    path = cx.root / "script.py"
    path.write_text(script)
    server = cx.stdio("--root", cx.root, state=cx.make("fenced-state", 0o700))
    answer = server.call("shell", argv=[cx.python(), str(path), *map(str, words)], timeout=30)
    check(answer.data, f"the command was not run: {answer.text[:200]}")
    return answer.data["stdout"] + answer.data["stderr"]


@case("D2", "a fenced command must not have our own unfenced socket do what it may not")
def a_fenced_command_cannot_use_the_users_own_socket(cx):
    server, secret = cx.serve(http=False, unix=True), cx.secret()
    said = fenced(cx, DRIVE_SOCKET, server.socket, secret)
    cx.note(f"it was told: {said.strip()[:90]}")
    check(SECRET not in said, "the fenced command read a file outside of its root through our socket")
    check(not cx.keep(server.lines()).call("jobs").refused, "the socket serves nobody any more")


@case("D2", "a socket at a path that the operator chose is no different")
def a_fenced_command_cannot_use_a_named_socket(cx):
    server, secret = cx.serve(http=False, unix=cx.folder / "named.sock"), cx.secret()
    said = fenced(cx, DRIVE_SOCKET, server.socket, secret)
    cx.note(f"it was told: {said.strip()[:90]}")
    check(SECRET not in said, "the fenced command read a file outside of its root through our socket")


@case("D2", "a fenced command that leaves its process tree behind is still fenced")
def an_orphan_of_a_fenced_command_cannot_use_our_socket(cx):
    server, secret = cx.serve(http=False, unix=True), cx.secret()
    script = "import os, sys, time\nif os.fork(): time.sleep(3); sys.exit()\nos.setsid()\n"
    script += "if os.fork(): os._exit(0)\ntime.sleep(0.3)\n"
    said = fenced(cx, script + DRIVE_SOCKET + "\nsys.stdout.flush()", server.socket, secret)
    cx.note(f"it was told: {said.strip()[:90]}")
    check(SECRET not in said, "an orphan of the fenced command read a file outside of its root through our socket")


# Runs in a fenced command: waits until its guard is gone, tries to get rid of its mark, then goes on with what follows.
WITHOUT_GUARD = """
import os, sys, time
if os.fork():
    time.sleep(60)
    os._exit(0)
above = os.getppid()
open("ready", "w").close()
while os.getppid() == above:
    time.sleep(0.01)
for name in ("coredump_filter", "oom_score_adj"):
    try:
        open(f"/proc/self/{name}", "w").write("0")
        print("wrote", name)
    except OSError:
        pass
sys.stdout = open("said.part", "w")
"""
DONE = """
sys.stdout.flush()
os.rename("said.part", "said")
"""


@case("D28", "a fenced command is fenced when the kernel or somebody has killed its guard", limit=90)
def a_fenced_command_without_its_guard_cannot_use_our_sockets(cx):
    wide, secret = cx.serve(unix=True), cx.secret()
    ways = ((DRIVE_SOCKET, wide.socket), (DRIVE_HTTP, f"http://127.0.0.1:{wide.port}/mcp"))
    for number, (script, address) in enumerate(ways):
        folder = cx.make(f"root/{number}")
        (folder / "script.py").write_text(WITHOUT_GUARD + script + DONE)
        server = cx.stdio("--root", cx.root, state=cx.make(f"fenced-state-{number}", 0o700))
        argv = [cx.python(), "script.py", str(address), str(secret)]
        check(not server.call("shell_bg", argv=argv, cwd=str(folder)).refused, "the job was not started")
        said = go_on_without_guard(cx, server, folder)
        cx.note(f"it was told: {said.strip()[:60]}")
        check(SECRET not in said, "a fenced command read a file outside of its root through our socket")
    check(not wide.caller().call("jobs").refused, "the server serves nobody any more")


# A program with the command line of a guard: the fence that it names is that of another server.
FORGED_GUARD = 'shift 2; "$@"\n'
FORGE_A_GUARD = """
import os, sys
if sys.argv[1] == "forge":
    os.execv("/bin/sh", ["sh", "__guard", os.environ["FENCE"], "user", sys.executable, sys.argv[0], *sys.argv[2:]])
"""


@case("D63", "a fenced command whose guard was killed must not forge one with the fence of another server", limit=90)
def a_fenced_command_forges_no_guard(cx):
    other = cx.make("other")
    server = cx.serve("--root", other, unix=True)
    proof = other / "proof"
    check(not server.caller().call("shell_bg", command="sleep 300").refused, "the job was not started")
    fence = next(processes.arguments(guard)[2] for guard in guards_of(server))
    ways = ((DRIVE_SOCKET, server.socket), (DRIVE_HTTP, f"http://127.0.0.1:{server.port}/mcp"))
    for number, (script, address) in enumerate(ways):
        folder = cx.make(f"root/{number}")
        (folder / "__guard").write_text(FORGED_GUARD)
        drive = script.replace('"cat "', '"touch "')
        (folder / "drive.py").write_text(FORGE_A_GUARD + 'sys.stdout = open("said.part", "w")\n' + drive + DONE)
        again = f"os.execv(sys.executable, [sys.executable, 'drive.py', 'forge', {str(address)!r}, {str(proof)!r}])\n"
        (folder / "script.py").write_text(WITHOUT_GUARD + again)
        narrow = cx.stdio("--root", cx.root, state=cx.make(f"fenced-state-{number}", 0o700))
        argv, env = [cx.python(), "script.py"], {"FENCE": fence}
        check(not narrow.call("shell_bg", argv=argv, env=env, cwd=str(folder)).refused, "the job was not started")
        said = go_on_without_guard(cx, narrow, folder)
        cx.note(f"it was told: {said.strip()[:60]}")
        check(not proof.exists(), "a fenced command ran one in the root of another server")
        check("no way" in said or "error" in said, f"a fenced command was let in by another server: {said[:100]}")
    check(not server.caller().call("jobs").refused, "the server serves nobody any more")


def guards_of(server):
    return [pid for pid in processes.descendants(server.pid) if "__guard" in processes.arguments(pid)[1:2]]


def go_on_without_guard(cx, server, folder):
    """Kills the guard of the only command of a server, then the server; what the command said afterwards."""
    cx.until(lambda: (folder / "ready").exists(), "the job does not run")
    guards = guards_of(server)
    # The server would end what it finds without a guard.
    os.kill(server.pid, signal.SIGSTOP)
    for guard in guards:
        os.kill(guard, signal.SIGKILL)
    cx.until(lambda: (folder / "said").exists(), "the fenced command does not go on without its guard", 40)
    os.kill(server.pid, signal.SIGKILL)
    return (folder / "said").read_text()


@case("D2", "`lmcp proxy` in a fenced command must not reach, nor start, a server without a fence")
def a_fenced_command_cannot_use_the_proxy(cx):
    cx.serve(http=False, unix=True)
    secret = cx.secret()
    call = wire.request(1, "tools/call", {"name": "shell", "arguments": {"command": f"cat {secret}"}}, wire.MODERN)
    server = cx.stdio("--root", cx.root, "--also-read", cx.world.folder / "lmcp", state=cx.make("fenced-state", 0o700))
    answer = server.call("shell", argv=[cx.binary, "proxy"], stdin=json.dumps(call) + "\n", timeout=20, yield_after=0)
    said = answer.text
    cx.note(f"it was told: {said.strip()[:90]}")
    check(SECRET not in said, "the fenced command read a file outside of its root through `lmcp proxy`")


@case("D2", "a token-less HTTP server of the same user is a socket of ours, too")
def a_fenced_command_cannot_use_http_without_a_token(cx):
    server, secret = cx.serve(), cx.secret()
    said = fenced(cx, DRIVE_HTTP, f"http://127.0.0.1:{server.port}/mcp", secret)
    cx.note(f"it was told: {said.strip()[:90]}")
    check(SECRET not in said, "the fenced command read a file outside of its root over HTTP")
    check(not server.caller().call("jobs").refused, "the server serves nobody any more")


# Runs in a fenced command: lets the kernel deliver most of a request only when the command, and its guard, are gone.
LEAVE_BEFORE_IT_ARRIVES = """
import json, socket, sys, time
port, proof = int(sys.argv[1]), sys.argv[2]
call = {"name": "shell", "arguments": {"command": "touch " + proof}}
body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
head = f"POST /mcp HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nContent-Type: application/json\\r\\n"
head += f"Accept: application/json, text/event-stream\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
request = (head + body).encode()
connection = socket.create_connection(("127.0.0.1", port))
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
time.sleep(0.1)
for at in range(12):
    connection.send(request[at:at + 1])
    time.sleep(0.002)
SO_MAX_PACING_RATE = 47
connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 42)
connection.send(request[12:76], socket.MSG_EOR)
connection.send(request[76:], socket.MSG_EOR)
connection.send(b"\\n" * 64)
print("sent")
"""


@case("D48", "a fenced command must not outlive its fence as a request that arrives when it has gone", alone=True)
def a_request_that_arrives_after_its_fenced_command_is_refused(cx):
    server, proof = cx.serve(), cx.make("outside") / "proof"
    said = fenced(cx, LEAVE_BEFORE_IT_ARRIVES, server.port, proof)
    check("sent" in said, f"nothing was sent: {said[:200]}")
    cx.until(lambda: proof.exists() or "is not served" in server.log(), "the request never arrives")
    check(not proof.exists(), "a fenced command ran one without a fence, over HTTP")
    check(not server.caller().call("jobs").refused, "the server serves nobody any more")


@case("D49", "a caller with a token must not become the user of the server through a fenced command of its own")
def a_fenced_command_of_a_named_caller_is_not_the_user(cx):
    server = cx.serve("--root", cx.root, tokens=("ann",), unix=True)
    owner = cx.keep(server.lines())
    job = owner.call("shell_bg", command="cat").data["id"]
    script = """
import json, socket, sys
meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
connection = socket.socket(socket.AF_UNIX)
try:
    connection.connect(sys.argv[1])
    call = {"name": "jobs", "arguments": {}, "_meta": meta}
    connection.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode() + b"\\n")
    print(connection.makefile().readline())
except OSError as error:
    print("no way:", error)
"""
    path = cx.root / "script.py"
    path.write_text(script)
    argv = [cx.python(), str(path), server.socket]
    said = server.caller(token_of("ann")).call("shell", argv=argv).text
    cx.note(f"it was told: {said.strip()[:90]}")
    check(job not in said, "a command of ann sees the jobs of the user")
    own = owner.call("shell", argv=argv).text
    check(job in own, f"a command of the user is kept from the user's own socket: {own[:200]}")


@case("D2", "the socket of a job's guard must not serve a fenced command")
def a_fenced_command_cannot_use_the_socket_of_a_guard(cx):
    wide = cx.stdio()
    job = wide.call("shell_bg", command="cat").data["id"]
    sockets = [path for path in (cx.state / "jobs" / job).iterdir() if path.is_socket()]
    if not sockets:
        raise Skip("the guard of a job has no socket file")
    script = "import socket, sys\ntry:\n c = socket.socket(socket.AF_UNIX); c.settimeout(3); c.connect(sys.argv[1])\n"
    script += " c.sendall(b'{}\\n'); print('connected', c.recv(100))\nexcept OSError as e: print('no way:', e)\n"
    said = fenced(cx, script, sockets[0])
    cx.note(f"it was told: {said.strip()[:90]}")
    check("no way" in said or "connected b''" in said, f"the guard speaks to a fenced command: {said[:100]}")


@case("D3", "a device node made below the root is a way to every disk", needs=["root"])
def a_fenced_command_makes_no_device_nodes(cx):
    server = cx.stdio("--root", cx.root)
    for kind, numbers in (("b", "7 0"), ("c", "1 1"), ("c", "1 3")):
        answer = server.call("shell", command=f"mknod {cx.root}/node-{kind} {kind} {numbers}; ls {cx.root}")
        check("node-" not in answer.data["stdout"], f"mknod {kind} {numbers} works: {answer.data['stdout']}")


@case("D3", "root inside the fence must be nobody special: no capability, and none to be gained", needs=["root"])
def a_fenced_command_has_no_capabilities(cx):
    server = cx.stdio("--root", cx.root)
    answer = server.call("shell", command="grep -E '^(Cap(Eff|Prm|Inh|Amb|Bnd)|NoNewPrivs)' /proc/self/status")
    held = dict(line.split(":\t") for line in answer.data["stdout"].splitlines())
    cx.note(", ".join(f"{name} {value}" for name, value in held.items()))
    for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        check(int(held[name], 16) == 0, f"{name} is {held[name]}")
    check(held["NoNewPrivs"] == "1", "new privileges could be gained")


@case("D10", "a fenced command must not be able to switch off all commands by changing modes of the state folder")
def a_fenced_command_cannot_spoil_the_state_folder(cx):
    server = cx.serve("--root", cx.root)
    folders = f"{cx.state} {cx.state}/jobs"
    said = server.caller().call("shell", command=f"chmod 777 {folders}; chmod 000 {folders}; true").text
    cx.note(f"it was told: {said.strip()[:80]!r}")
    after = server.caller().call("shell", command="echo alive")
    check("alive" in after.text, f"no command runs any more: {after.text[:150]}")
    check(server.end() == 0, "the server does not end well")
    again = cx.serve("--root", cx.root).caller().call("shell", command="echo alive")
    check("alive" in again.text, f"no command runs after a restart: {again.text[:150]}")


@case("held", "other processes, their memory, descriptors and roots are out of a fenced command's reach")
def a_fenced_command_reaches_no_other_process(cx):
    secret = cx.secret()
    holder = cx.start(["sh", "-c", f"exec 3< {secret}; cd {secret.parent}; echo up; sleep 300"])
    holder.stdout.readline()
    pid = holder.pid
    script = f"""
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, work):
    try:
        print(name, "WORKED", work())
    except Exception as error:
        print(name, "failed", error)
def call(number, *words):
    if libc.syscall(number, *words) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
attempt("mem", lambda: open("/proc/{pid}/mem", "rb").fileno())
attempt("fd", lambda: open("/proc/{pid}/fd/3").read())
attempt("root", lambda: open("/proc/{pid}/root{secret}").read())
attempt("cwd", lambda: open("/proc/{pid}/cwd/secret").read())
attempt("ptrace", lambda: call(101, 16, {pid}, 0, 0))
attempt("signal", lambda: os.kill({pid}, signal.SIGTERM))
attempt("userns", lambda: (call(272, 0x10000000 | 0x20000), open("{secret}").read()))
attempt("open_tree", lambda: call(428, -100, b"{secret.parent}", 1))
attempt("symlink", lambda: (os.symlink("{secret}", "{cx.root}/l"), open("{cx.root}/l").read()))
attempt("rename", lambda: os.rename("{secret}", "{cx.root}/moved"))
attempt("hard link", lambda: (os.link("{secret}", "{cx.root}/hard"), open("{cx.root}/hard").read()))
attempt("plain", lambda: open("{secret}").read())
"""
    said = fenced(cx, script)
    worked = [line for line in said.splitlines() if " WORKED" in line]
    # A descriptor of the folder itself says nothing of what is in it.
    worked = [line for line in worked if not line.startswith("open_tree")]
    check(not worked, f"worked: {worked}")
    check(SECRET not in said, f"the secret was seen: {said}")
    check(holder.poll() is None, "the process outside was ended by a signal")


@case("held", "a fenced command must not end or starve other processes by their limits")
def a_fenced_command_cannot_limit_other_processes(cx):
    server = cx.serve()
    script = f"""
import os, resource
for name, pid in (("guard", os.getppid()), ("server", {server.pid})):
    for limit in ("RLIMIT_CPU", "RLIMIT_NOFILE", "RLIMIT_FSIZE"):
        try:
            resource.prlimit(pid, getattr(resource, limit), (0, 0))
            print(name, limit, "WORKED")
        except OSError as error:
            print(name, limit, "failed", error)
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
print("own limit set")
"""
    said = fenced(cx, script)
    worked = [line for line in said.splitlines() if "WORKED" in line]
    check(not worked, f"limits of other processes were set: {worked}")
    check("own limit set" in said, f"the command cannot set its own limits: {said[-200:]}")
    check(not server.caller().call("jobs").refused, "the server outside serves nobody any more")


@case("held", "abstract sockets of other programs are out of a fenced command's reach")
def a_fenced_command_reaches_no_abstract_socket(cx):
    name = f"\0{cx.mark}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen(1)
        script = "import socket\nconnection = socket.socket(socket.AF_UNIX)\n"
        script += f"try:\n connection.connect('\\0{cx.mark}')\n print('WORKED')\n"
        said = fenced(cx, script + "except OSError as error:\n print('failed', error)")
    check("WORKED" not in said, "an abstract socket outside can be connected to")


@case("held", "a file system that is full must never leave a file torn", needs=["root"])
def a_full_disk_tears_no_file(cx):
    small = cx.make("small")
    enter = f"mount -t tmpfs -o size=1m none {small} && echo old > {small}/file && exec \"$@\""
    try:
        apart = ["unshare", "--mount", "--propagation", "private", "sh", "-c", enter, "sh"]
        server = cx.serve("--root", small, wrap=apart)
    except wire.NoAnswer as reason:
        raise Skip(f"nothing can be mounted here: {reason}") from reason
    caller = server.caller()
    answer = caller.call("write_file", path=str(small / "file"), content="x" * 3_000_000)
    check(answer.refused, "writing 3 MB to a disk of 1 MB is reported as done")
    there = caller.call("read_file", path=str(small / "file"))
    check("old" in there.text, f"the file is torn: {there.text[:100]}")


@case("held", "whatever is done to a fence from inside, it holds for what was started before and after")
def a_fence_holds_for_jobs(cx):
    secret = cx.secret()
    server = cx.stdio("--root", cx.root)
    job = server.call("shell_bg", command="bash").data["id"]
    server.call("job_input", id=job, text=f"cat {secret}; echo over; exit\n")
    said = server.call("job_output", id=job, wait_exit=True, wait=20)
    check("over" in said.text, f"the job said nothing: {said.text[:100]}")
    check(SECRET not in said.text, "a job behind the fence reads outside of the root")
