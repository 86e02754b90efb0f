"""Ways around the fence that name no path, and floods from behind it that must cost nobody else anything."""

import contextlib
import os
import shutil
import struct
import subprocess
import time

from driver import processes
from harness import machine
from harness.agent import run_agent
from harness.bystander import Bystander
from harness.case import Skip, case, check

from .fence import fenced

# Runs in a fenced command: says how each attempt ended.
ATTEMPT = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
def attempt(name, act):
    try:
        print(name, "WORKED", act())
    except OSError as error:
        print(name, "failed", error)
def made(number):
    if number is None or number < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return number
"""

# An access list that lets nobody do anything.
NO_LEAVE = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, 0, 0xFFFFFFFF) for tag in (1, 4, 32))


@case("D24", "attributes of files outside are changed without opening them: an access list shuts everybody out")
def a_fenced_command_sets_no_attributes_outside(cx):
    secret = cx.secret()
    server = cx.stdio()
    check(not server.call("shell", command="true").refused, "the server runs no commands")
    script = f"""
acl = {NO_LEAVE!r}
for path in ({str(cx.state)!r}, {str(cx.state / "jobs")!r}, {str(cx.folder)!r}, "/proc/self/fd/%d" % os.open({str(cx.state)!r}, os.O_PATH)):
    attempt("list " + path, lambda: os.setxattr(path, "system.posix_acl_default", acl))
attempt("note", lambda: os.setxattr({str(secret)!r}, "user.note", b"x"))
attempt("open", lambda: os.setxattr(os.open("/usr/bin", os.O_RDONLY), "user.note", b"x"))
"""
    said = fenced(cx, ATTEMPT + script)
    worked = [line for line in said.splitlines() if "WORKED" in line]
    check(not worked, f"worked: {worked}")
    check("failed" in said, f"nothing was tried: {said[:200]}")
    answer = server.call("shell", command="mktemp >/dev/null && echo alive")
    check("alive" in answer.text, f"no command runs any more: {answer.text[:150]}")


# Runs in a fenced command: takes all leave from folders, without pause, each in processes of its own.
CLOSE_AGAIN_AND_AGAIN = """
import os, sys
# All are opened before one is closed, because one is inside of the other.
folders = [os.open(path, os.O_PATH) for path in sys.argv[1:]]
for held in folders:
    if os.fork() == 0:
        while True:
            os.chmod(f"/proc/self/fd/{held}", 0)
print("closing", flush=True)
os.wait()
"""


@case("D50", "a fenced command that closes our folders without pause must stop no commands and jobs of others")
def folders_that_are_closed_without_pause_stop_nobody(cx):
    server = cx.serve("--root", cx.root)
    (cx.root / "script.py").write_text(CLOSE_AGAIN_AND_AGAIN)
    caller = server.caller()
    kept = caller.call("shell_bg", command="echo kept").data["id"]
    folders = [str(cx.state), str(cx.state / "jobs")]
    attacker = caller.call("shell_bg", argv=[cx.python(), str(cx.root / "script.py"), *folders]).data["id"]
    cx.until(lambda: "closing" in caller.call("job_output", id=attacker).text, "the attack does not begin")
    for _ in range(20):
        answer = caller.call("shell", command="echo alive")
        check("alive" in answer.text, f"a command does not run: {answer.text[:150]}")
        jobs = caller.call("jobs", all=True).text
        check(kept in jobs and attacker in jobs, f"jobs are not listed: {jobs[:150]}")
    check("kept" in caller.call("job_output", id=kept).text, "the output of a job cannot be read")
    stopped = caller.call("job_stop", id=attacker)
    check(not stopped.refused, f"the attack cannot be stopped: {stopped.text[:150]}")


# Runs in a fenced command: takes all leave from a program file, once or without pause.
CLOSE_A_PROGRAM = """
import os, sys, time
os.chmod(sys.argv[1], int(sys.argv[2], 8))
print("closing", flush=True)
while sys.argv[3:]:
    os.chmod(sys.argv[1], int(sys.argv[2], 8))
time.sleep(60)
"""


@case("D64", "a fenced command takes the leave to run the program of all servers of its user: none would start a command")
def a_program_that_a_fenced_command_closes_stops_nobody(cx):
    own = cx.make("bin") / "lmcp"
    shutil.copyfile(cx.binary, own)
    own.chmod(0o755)
    words = [str(own), "serve", "--stdio", "--state-dir", str(cx.state)]
    narrow, wide = cx.speak([*words, "--root", str(cx.root)]), cx.speak(words)
    (cx.root / "script.py").write_text(CLOSE_A_PROGRAM)
    for mode, more in (("0", []), ("0111", []), ("0", ["again"])):
        argv = [cx.python(), str(cx.root / "script.py"), str(own), mode, *more]
        attacker = narrow.call("shell_bg", argv=argv).data["id"]
        cx.until(lambda: "closing" in narrow.call("job_output", id=attacker).text, "the attack does not begin")  # noqa: B023
        for server in (narrow, wide) * 5:
            answer = server.call("shell", command="echo alive; cat /proc/self/coredump_filter")
            check("alive" in answer.text, f"no command runs any more: {answer.text[:150]}")
            is_marked = int(answer.data["stdout"].split()[-1], 16) & 0x180 == 0x100
            check(is_marked == (server is narrow), f"the mark of the fence is wrong: {answer.text[:150]}")
        check(not narrow.call("job_stop", id=attacker).refused, "the attack cannot be stopped")


@case("D65", "a set-uid program outside of the root gives every user of the machine the rights of the server's user")
def a_fenced_command_makes_no_set_uid_programs(cx):
    outside = cx.make("outside") / "program"
    outside.write_bytes(b"")
    outside.chmod(0o755)
    script = f"""
for path in ({str(outside)!r}, "inside"):
    for mode in (0o4755, 0o2755, 0o6711, 0o4710):
        attempt("open", lambda: os.fchmod(os.open("inside", os.O_CREAT | os.O_RDWR), mode))
        attempt("name", lambda: os.chmod(path, mode))
        attempt("folder", lambda: os.chmod(path, mode, dir_fd=os.open("/", os.O_PATH)))
os.chmod("inside", 0o700)
print("over")
"""
    said = fenced(cx, ATTEMPT + script)
    check("over" in said, f"not everything was tried: {said[-200:]}")
    worked = [line for line in said.splitlines() if "WORKED" in line]
    check(not worked, f"worked: {worked}")
    check(outside.stat().st_mode & 0o7777 == 0o755, "the mode of a file outside is another one")


@case("D51", "where /proc shows other processes under the numbers of ours, the wrong one is judged", needs=["root"])
def with_the_proc_of_another_namespace_nobody_is_let_in(cx):
    socket_path = cx.folder / "wide.sock"
    connect = f"""
import socket, subprocess, sys, time
server = subprocess.Popen([sys.argv[1], "serve", "--unix", {str(socket_path)!r}, "--state-dir", {str(cx.state)!r}])
message = b'{{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}}'
for attempt in range(500):
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect({str(socket_path)!r})
        break
    except OSError:
        time.sleep(0.02)
try:
    connection.sendall(message + b"\\n")
    print(connection.makefile().readline())
except OSError as error:
    print("no way:", error)
server.kill()
"""
    apart = ["unshare", "--pid", "--fork", "--kill-child"]
    code, said, err = cx.finish([*apart, cx.python(), "-c", connect, cx.binary])
    if "unshare" in err:
        raise Skip(f"there are no pid namespaces here: {err[:100]}")
    cx.note(f"it was told: {said.strip()[:90]}")
    check("mount one of its own" in said, f"a process is let in that nobody could judge: {said[:200]} {err[-200:]}")


@case("D24", "an access list that somebody set all the same must not stop commands, hosts and proxies")
def an_access_list_of_our_folders_stops_nobody(cx):
    server = cx.stdio("--root", cx.root)
    check(not server.call("shell", command="true").refused, "the server runs no commands")
    code, _, said = cx.finish([cx.binary, "run", "--", "true"])
    check(code == 0, f"`lmcp run` fails: {said[-200:]}")
    for folder in (cx.state, cx.state / "jobs", cx.runtime / "lmcp"):
        try:
            os.setxattr(folder, "system.posix_acl_default", NO_LEAVE)
        except OSError as reason:
            raise Skip(f"no access list can be set here: {reason}") from reason
    answer = server.call("shell", command="mktemp >/dev/null && echo alive")
    check("alive" in answer.text, f"no command runs any more: {answer.text[:150]}")
    code, _, said = cx.finish([cx.binary, "run", "--", "true"])
    check(code == 0, f"`lmcp run` ends with {code}: {said[-200:]}")
    left = [path.name for path in (cx.runtime / "lmcp").iterdir()]
    check(not left, f"it leaves {left}")


@case("D25", "shared memory and queues of System V have no path, and belong to the whole user")
def a_fenced_command_reaches_no_shared_memory(cx):
    outside = f"""{ATTEMPT}
i = made(libc.shmget(0, 4096, 0o1600)); a = libc.shmat(i, None, 0); ctypes.memmove(a, b"OUTSIDE-WORD", 13)
q = made(libc.msgget(0, 0o1600)); made(libc.msgsnd(q, b"\\1\\0\\0\\0\\0\\0\\0\\0OUTSIDE-WORD", 12, 0))
print(i, q)
"""
    code, out, err = cx.finish([cx.python(), "-c", outside])
    if code:
        raise Skip(f"there is no shared memory here: {err[-100:]}")
    memory, queue = out.split()
    script = f"""
attempt("memory", lambda: ctypes.string_at(libc.shmat({memory}, None, 0)) if libc.shmat({memory}, None, 0) != 2**64 - 1 else made(-1))
attempt("queue", lambda: made(libc.msgrcv({queue}, ctypes.create_string_buffer(99), 64, 0, 0)))
attempt("new memory", lambda: made(libc.shmget(0, 4096, 0o1600)))
attempt("new queue", lambda: made(libc.msgget(0, 0o1600)))
attempt("new semaphores", lambda: made(libc.semget(0, 1, 0o1600)))
attempt("posix queue", lambda: made(libc.syscall(ctypes.c_long(240), b"lmcp-attack", 0o102, 0o600, None)))
"""
    try:
        said = fenced(cx, ATTEMPT + script)
    finally:
        subprocess.run(["ipcrm", "-m", memory, "-q", queue], check=False, capture_output=True)
    worked = [line for line in said.splitlines() if "WORKED" in line]
    check(not worked, f"worked: {worked}")
    check("OUTSIDE-WORD" not in said, "memory outside was read")
    check(said.count("failed") == 6, f"not all was tried: {said[:300]}")


@case("D26", "a socket whose mode a fenced command took away must be reached again")
def a_socket_without_leave_is_reached_by_the_proxy(cx):
    server = cx.serve(http=False, unix=True)
    said = fenced(cx, "import os, sys\nos.chmod(sys.argv[1], 0); print('changed')", server.socket)
    check("changed" in said, f"the mode was not changed: {said[:150]}")
    answer = cx.proxy(server.socket).call("shell", command="echo alive")
    check("alive" in answer.text, f"the proxy finds no way: {answer.text[:150]}")


# Both floods call this: it holds twenty connections at a time, each with a message that must be refused.
CONNECT = """
import socket, time

def connect_again_and_again(family, address, message, seconds, rest):
    end, count, held = time.monotonic() + seconds, 0, []
    while time.monotonic() < end:
        try:
            connection = socket.socket(family)
            connection.settimeout(0.01)
            connection.connect(address)
            connection.send(message)
            held.append(connection)
            count += 1
        except OSError:
            pass
        if len(held) > 20:
            held.pop(0).close()
        time.sleep(rest)
    print("connections", count)
"""

# Runs in a fenced command: many processes with many descriptors, and connections that are given up again and again.
FLOOD = """
import os, resource, socket, sys, time
port, processes, files, seconds = map(int, sys.argv[1:])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
files = min(files, hard - 64) if hard > 0 else files
resource.setrlimit(resource.RLIMIT_NOFILE, (files + 64, hard))
null = os.open("/dev/null", os.O_RDONLY)
for _ in range(files):
    os.dup(null)
for _ in range(processes):
    if os.fork() == 0:
        time.sleep(seconds)
        os._exit(0)
os.closerange(3, files + 64)
print("flooding", flush=True)
connect_again_and_again(socket.AF_INET, ("127.0.0.1", port), b"GET /mcp HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n", seconds, 0.005)
"""

# The same on a unix socket, from far down in a tree of processes.
DEEP_FLOOD = """
import os, socket, sys, time
path, depth, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print("flooding", flush=True)
for _ in range(depth):
    if os.fork():
        os.wait()
        os._exit(0)
connect_again_and_again(socket.AF_UNIX, path, b"{}\\n", seconds, 0.002)
"""


def flood(cx, script, *words):
    """Starts a job behind the fence; returns when it floods."""
    path = cx.root / "flood.py"
    path.write_text(CONNECT + script)
    server = cx.stdio("--root", cx.root, state=cx.make("fenced-state", 0o700))
    command = " ".join(map(str, (cx.python(), path, *words)))
    job = server.call("shell_bg", command=command).data["id"]
    cx.until(lambda: "flooding" in server.call("job_output", id=job).text, "the job floods")
    return server, job


def echo_over(connect):
    """Runs a command on a connection of its own each time; what is wrong with its answer."""

    def echo():
        with contextlib.closing(connect()) as caller:
            answer = caller.call("shell", command="echo alive")
        return "" if "alive" in answer.text else answer.text[:150]

    return echo


@case("D23", "a fenced flood of connections must not hold up commands of others, nor new connections", form="long",
      alone=True, limit=120)
def a_fenced_flood_over_http_holds_nobody_up(cx):
    server = cx.serve(unix=True)
    fenced_server, job = flood(cx, FLOOD, server.port, 100, 4000, 20)
    unix = Bystander(echo_over(server.lines), 12, 0.2)
    fresh = Bystander(echo_over(lambda: server.caller(seconds=30)), 12, 0.2)
    results = {"unix": unix.result(), "HTTP": fresh.result()}
    fenced_server.call("job_stop", id=job, signal="KILL")
    for name, (watch, complaint) in results.items():
        cx.note(f"{name}: {watch.summary()}, worst {watch.worst():.2f} s")
        check(not complaint, f"over {name} a caller is told: {complaint}")
    check(results["unix"][0].worst() < 1, f"a command waits {results['unix'][0].worst():.1f} s on the unix socket")
    check(results["HTTP"][0].worst() < 5, f"a new connection waits {results['HTTP'][0].worst():.1f} s")


@case("D23", "a fenced flood from far down in a tree of processes must not hold up the socket", form="long", alone=True,
      limit=120)
def a_fenced_flood_on_a_socket_holds_nobody_up(cx):
    server = cx.serve(http=False, unix=True)
    fenced_server, job = flood(cx, DEEP_FLOOD, server.socket, 240, 15)
    watch, complaint = Bystander(echo_over(server.lines), 8, 0.1).result()
    fenced_server.call("job_stop", id=job, signal="KILL")
    cx.note(f"{watch.summary()}, worst {watch.worst():.2f} s")
    check(not complaint, f"a caller is told: {complaint}")
    check(watch.worst() < 1, f"a command waits {watch.worst():.1f} s")


# Many processes, each of which connects twenty times and is gone: nothing is known of any of them.
SHORT_LIVED_FLOOD = """
import os, socket, sys, time
path, leaves, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print("flooding", flush=True)
until = time.monotonic() + seconds
for _ in range(leaves):
    if os.fork() == 0:
        while time.monotonic() < until:
            child = os.fork()
            if child:
                os.waitpid(child, 0)
                continue
            connections = [socket.socket(socket.AF_UNIX) for _ in range(20)]
            for connection in connections:
                connection.setblocking(False)
                connection.connect_ex(path)
            time.sleep(0.01)
            os._exit(0)
        os._exit(0)
for _ in range(leaves):
    os.wait()
"""


@case("D29", "connections that come quicker than they are looked at must not use up the files of the server", alone=True)
def a_flood_from_short_lived_processes_leaves_files_for_others(cx):
    server = cx.serve(http=False, unix=True, wrap=("prlimit", "--nofile=1500:1500"))
    fenced_server, job = flood(cx, SHORT_LIVED_FLOOD, server.socket, 8, 8)
    most, answers = 0, 0
    echo = echo_over(lambda: server.lines())
    until = time.monotonic() + 6
    while time.monotonic() < until:
        complaint = echo()
        check(not complaint, f"a caller is told: {complaint}")
        most, answers = max(most, machine.descriptors(server.pid)), answers + 1
    fenced_server.call("job_stop", id=job, signal="KILL")
    cx.note(f"{answers} answers, at most {most} of 1,500 files open")
    check(most < 1000, f"the server has {most} of 1,500 files open, of which connections may take a third")


@case("D30", "a folder that a fenced command closes to its own user stops nobody", needs=["user"])
def folders_that_a_fenced_command_closes_are_opened_again(cx):
    wide = cx.stdio()
    note = cx.home / "note"
    wide.call("write_file", path=str(note), content="one")
    closed = [cx.state / "history", cx.runtime]
    for mode in ("000", "400", "600"):
        server = cx.stdio("--root", cx.root, state=cx.make("fenced-state", 0o700))
        said = server.call("shell", command=f"chmod {mode} {' '.join(map(str, closed))}; stat -c %a {cx.runtime}").text
        check(f"{int(mode)}\n" in said + "\n", f"the modes were not changed: {said}")
        kept = wide.call("file_history").text
        check("write_file" in kept, f"after chmod {mode} the history says: {kept[:200]}")
        listening = cx.serve(http=False, unix=True)
        check("alive" in cx.keep(listening.lines()).call("shell", command="echo alive").text, "the socket serves nobody")
        listening.close()


# Runs in a fenced command: takes all processes that its user may have.
TAKE_PROCESSES = """
import os, time
for _ in range(200):
    try:
        if os.fork() == 0:
            time.sleep(40)
            os._exit(0)
    except OSError:
        break
print("word " * 20000, "all taken", flush=True)
time.sleep(40)
"""


def threads_of(uid):
    """How many threads run for a user."""
    count = 0
    for pid in processes.all_pids():
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == uid:
                count += len(os.listdir(f"/proc/{pid}/task"))
    return count


@case("D31", "a server that gets no thread more says so and goes on", needs=["user"], alone=True)
def a_command_that_takes_all_processes_ends_no_server(cx):
    path = cx.root / "take.py"
    path.write_text(TAKE_PROCESSES)
    room = threads_of(os.getuid()) + 60
    server = cx.stdio("--root", cx.root, wrap=("prlimit", f"--nproc={room}:{room}"))
    job = server.call("shell_bg", argv=[cx.python(), str(path)]).data["id"]
    spool = cx.state / "jobs" / job
    cx.until(lambda: any(b"all taken" in file.read_bytes() for file in spool.iterdir() if file.is_file()), "the job runs")
    # An answer that is too long to be written at once needs a thread.
    waited = server.call("job_output", id=job, wait_for="never said", wait=1)
    cx.note(f"it says: {waited.text[:80]!r}")
    stopped = server.call("job_stop", id=job, signal="KILL")
    check(not stopped.refused, f"the job cannot be stopped: {stopped.text[:150]}")
    check("alive" in server.call("shell", command="echo alive").text, "the server runs no commands any more")


@case("D35", "the runtime folder that a fenced command closes, or opens to everybody, keeps no proxy out", needs=["user"])
def a_changed_runtime_folder_keeps_no_proxy_out(cx):
    for mode in ("000", "777"):
        change_modes(cx, mode, cx.runtime)
        for options in ((), ("--own",)):
            caller = cx.proxy(*options)
            check("alive" in caller.call("shell", command="echo alive").text, f"after chmod {mode} a proxy serves nobody")
            caller.close()
        now = cx.runtime.stat().st_mode & 0o777
        check(now == 0o700, f"after chmod {mode} the folder has {now:o}")
        sockets = list((cx.runtime / "lmcp").glob("serve*.sock"))
        check(sockets, f"after chmod {mode} the user's own server is elsewhere")


@case("D35", "an agent whose runtime folder is closed keeps its identity, and nothing of it is left", needs=["user"])
def a_changed_runtime_folder_loses_no_identity(cx):
    for mode in (0o000, 0o777):
        script = f"os.chmod(os.environ['XDG_RUNTIME_DIR'], {mode})\nsay(**proxy())\nos.chmod(os.environ['XDG_RUNTIME_DIR'], {mode})"
        found = run_agent(cx, script, "--read-only")
        check("whoami" in (found["tools"] or ()), f"after chmod {mode:03o} its proxy gives {found}")
        cx.runtime.chmod(0o700)
        left = [path.name for path in (cx.runtime / "lmcp").iterdir()]
        check(not left, f"after chmod {mode:03o} `lmcp run` leaves {left}")


def change_modes(cx, mode, folder):
    """Has a fenced command change a mode."""
    server = cx.stdio("--root", cx.root, state=cx.make("fenced-state", 0o700))
    said = server.call("shell", command=f"chmod {mode} {folder}; stat -c %a {folder}").text
    check(f"{int(mode)}\n" in said + "\n", f"the mode was not changed: {said}")
    server.close()


@case("D36", "the folder above a state folder that a fenced command closes, or opens to everybody, stops no start",
      needs=["user"])
def a_changed_folder_above_the_state_stops_no_start(cx):
    above = cx.make("above", 0o700)
    state = above / "state"
    job = cx.stdio(state=state).call("shell_bg", command="exec sleep 60").data["id"]
    for mode in ("000", "777"):
        change_modes(cx, mode, above)
        server = cx.serve(http=False, unix=cx.runtime / "named.sock", state=state)
        cx.note(f"after chmod {mode}: {' '.join(server.log().split())[:120]}")
        check(("warning: everybody could write" in server.log()) == (mode == "777"), f"after chmod {mode}: {server.log()}")
        found = cx.stdio(state=state).call("jobs").text
        check(job in found, f"after chmod {mode} a job is not found: {found[:100]}")
        check(above.stat().st_mode & 0o022 == 0, f"after chmod {mode} others can write {above}")
        server.close()
