"""Jobs and commands: who may drive them, what ends them, and what they leave behind."""

import os
import signal
import threading

from driver import processes
from harness import machine
from harness.case import case, check, equal
from harness.load import Stopwatch
from harness.world import token_of

# An attacker's stdin: nearly as large as one message may be.
LARGE = 7_900_000


@case("D1", "a server confined to a root must not drive the jobs of one that is not: their shell reaches everything")
def jobs_of_a_wider_server_are_out_of_reach(cx):
    wide = cx.stdio()
    job = wide.call("shell_bg", command="bash").data["id"]
    expect_out_of_reach(cx.stdio("--root", cx.root), job)
    check(not wide.call("job_output", id=job).refused, "the server that started the job has lost it")


@case("D1", "a server that denies a command must not type it into a shell that another server started")
def jobs_without_rules_are_out_of_reach_of_a_server_with_rules(cx):
    wide = cx.stdio()
    job = wide.call("shell_bg", command="bash").data["id"]
    expect_out_of_reach(cx.stdio("--deny", "rm"), job)


@case("D1", "a server whose callers have no tool to start commands must not type into a shell that another one started")
def jobs_are_out_of_reach_where_commands_cannot_be_started(cx):
    job = cx.stdio().call("shell_bg", command="bash").data["id"]
    expect_out_of_reach(cx.stdio("--tools", "-shell,-shell_bg"), job)


@case("D1", "the wider server may see the jobs of a narrower one, or nobody could clean up after it")
def jobs_of_a_narrower_server_are_in_reach(cx):
    job = cx.stdio("--root", cx.root).call("shell_bg", command="sleep 300").data["id"]
    wide = cx.stdio()
    check(job in wide.call("jobs").text, "it is not listed")
    check(not wide.call("job_stop", id=job).refused, "it cannot be stopped")


def expect_out_of_reach(narrow, job):
    check(job not in narrow.call("jobs").text, "the narrower server lists the job of the wider one")
    for tool, more in (("job_output", {}), ("job_input", {"text": "id\n"}), ("job_stop", {})):
        answer = narrow.call(tool, id=job, **more)
        check(answer.refused, f"the narrower server may use {tool}: {answer.text[:80]}")
    answer = narrow.ask("resources/read", {"uri": f"job://{job}/output"})
    check(answer.refused, f"the narrower server reads the output as a resource: {answer.text[:80]}")


@case("D6", "a list of jobs must not read what was once their input, and input must not stay on disk")
def input_of_jobs_is_neither_kept_nor_listed(cx):
    server, count = cx.serve(), 5
    for _ in range(count):
        answer = server.caller().call("shell", command="sleep 300", stdin="x" * LARGE, yield_after=0.1)
        check(not answer.refused, f"a job was not started: {answer.text[:100]}")
    kept, _ = machine.folder_bytes(cx.state)
    can_measure = machine.forget_peak(server.pid)
    before = machine.resident_bytes(server.pid)
    threads = [threading.Thread(target=lambda: server.caller().call("jobs")) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    grown = machine.peak_bytes(server.pid) - before if can_measure else 0
    cx.note(f"state folder {machine.mib(kept)}, 12 lists at once took {machine.mib(grown)}")
    check(kept < LARGE, f"the state folder holds {machine.mib(kept)} after {count} commands with {machine.mib(LARGE)}")
    check(grown < LARGE, f"12 lists of {count} jobs take {machine.mib(grown)}")


# Runs in a fenced command: many processes that connect to the guard of another job without pause, and say nothing.
FLOOD_A_GUARD = """
import os, socket, sys, time
path, until = sys.argv[1], time.monotonic() + 60
print("flooding", flush=True)
for _ in range(100):
    if os.fork() == 0:
        held = []
        while time.monotonic() < until:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(path)
            except OSError:
                continue
            held.append(connection)
            if len(held) > 800:
                held.clear()
        os._exit(0)
os.wait()
"""


@case("D62", "a fenced command floods the guard of somebody else's job: its owner must type into it and stop it", alone=True)
def a_flood_on_a_guard_keeps_nobody_from_a_job(cx):
    server = cx.serve("--root", cx.root, tokens=("ann", "bob"))
    ann, bob = server.caller(token_of("ann")), server.caller(token_of("bob"))
    (cx.root / "flood.py").write_text(FLOOD_A_GUARD)
    for _ in range(2):
        job = ann.call("shell_bg", command="while read x; do echo got $x; done").data["id"]
        argv = [cx.python(), str(cx.root / "flood.py"), str(cx.state / "jobs" / job / "guard")]
        flood = bob.call("shell_bg", argv=argv).data["id"]
        cx.until(lambda: "flooding" in bob.call("job_output", id=flood).text, "the flood does not begin")  # noqa: B023
        watch = Stopwatch()
        for round in range(5):
            typed = watch.measure(lambda: ann.call("job_input", id=job, text=f"{round}\n", wait_for=f"got {round}"))  # noqa: B023
            check(not typed.refused, f"the owner of a job cannot type into it: {typed.text[:150]}")
        stopped = watch.measure(lambda: ann.call("job_stop", id=job))  # noqa: B023
        cx.note(f"{watch.summary()}, worst {watch.worst():.2f} s")
        check(not stopped.refused, f"the owner of a job cannot stop it: {stopped.text[:150]}")
        bob.call("job_stop", id=flood, signal="KILL")


@case("D7", "a command nests folders in $TMPDIR: they are removed with its end")
def deep_folders_go_with_the_end_of_a_command(cx):
    expect_deep_folders_to_go(cx, 3000)


@case("D7", "a command nests 19,000 folders: who removes them recursively overflows its stack", form="long", limit=400)
def folders_deeper_than_a_stack_end_nobody(cx):
    expect_deep_folders_to_go(cx, 19_000)


def expect_deep_folders_to_go(cx, depth):
    server = cx.serve("--root", cx.root)
    script = f"import os\nos.chdir(os.environ['TMPDIR'])\nfor _ in range({depth}):\n os.mkdir('d'); os.chdir('d')"
    (cx.root / "nest.py").write_text(script)
    command = f"{cx.python()} {cx.root}/nest.py; echo $TMPDIR"
    caller = server.caller(seconds=150)
    scratches = [caller.call("shell", command=command, timeout=140).data.get("stdout", "").strip()]
    job = caller.call("shell_bg", command=command).data["id"]
    scratches.append(caller.call("job_output", id=job, wait_exit=True, wait=140).data.get("output", "").strip())
    check(all(scratches), f"there is no $TMPDIR: {scratches}")
    for scratch in scratches:
        nested = f"{scratch}/d"
        cx.until(lambda: not is_there(nested) or not server.is_alive(), f"{nested} is removed", 60)  # noqa: B023
    check(server.is_alive(), f"the server has died: {server.log()[-200:]}")
    check(not server.caller().call("list_dir", path=str(cx.root)).refused, "the server does not answer any more")


def is_there(path):
    try:
        return bool(os.lstat(path))
    except OSError:
        return False


@case("D7", "what jobs leave in $TMPDIR must go with them, or it fills the disk past every limit")
def scratch_folders_go_with_the_end_of_a_job(cx):
    server = cx.serve("--root", cx.root)
    command = "head -c 3000000 /dev/zero > $TMPDIR/large; echo $TMPDIR"
    job = server.caller().call("shell_bg", command=command).data["id"]
    ended = server.caller().call("job_output", id=job, wait_exit=True, wait=20)
    scratch = ended.data["output"].strip().splitlines()[-1]
    cx.until(lambda: not is_there(f"{scratch}/large"), f"{scratch}/large is removed after the job has ended")


@case("D7", "removing 300,000 files inside the runtime stalls every other client", form="long", alone=True, limit=180)
def many_files_of_a_command_stall_nobody(cx):
    server = cx.serve("--root", cx.root)
    script = (
        "import os\nos.chdir(os.environ['TMPDIR'])\nfor n in range(300000):\n os.close(os.open(str(n), os.O_CREAT))\n"
        "print(os.environ['TMPDIR'])"
    )
    (cx.root / "files.py").write_text(script)
    started = server.caller().call("shell_bg", command=f"{cx.python()} {cx.root}/files.py")
    ended = server.caller().call("job_output", id=started.data["id"], wait_exit=True, wait=120)
    scratch = ended.data["output"].strip()
    watch, caller = Stopwatch(), server.caller()

    def look():
        watch.measure(lambda: caller.call("list_dir", path=str(cx.root)))
        return not is_there(scratch)

    cx.until(look, f"{scratch} is removed", 60)
    cx.note(f"longest of {len(watch.seconds)} calls meanwhile {watch.worst() * 1000:.0f} ms")
    check(watch.worst() < 1, f"a call took {watch.worst():.1f} s while the files were removed")


@case("D8", "one caller's many quick jobs must not erase what another's jobs wrote")
def results_of_one_caller_are_not_erased_by_another(cx):
    server = cx.serve(tokens=("ann", "bob"))
    ann, bob = server.caller(token_of("ann")), server.caller(token_of("bob"))
    job = ann.call("shell_bg", command="echo kept").data["id"]
    ann.call("job_output", id=job, wait_exit=True, wait=20)
    refused = 0
    for _ in range(70):
        started = bob.call("shell_bg", command="true")
        if started.refused:
            refused += 1
        else:
            bob.call("job_output", id=started.data["id"], wait_exit=True, wait=20)
    answer = ann.call("job_output", id=job)
    cx.note(f"{70 - refused} jobs of the other")
    check("kept" in answer.text, f"her result is gone: {answer.text[:100]}")


@case("D8", "one caller's running jobs must not refuse another's first")
def jobs_of_one_caller_leave_places_for_another(cx):
    server = cx.serve(tokens=("ann", "bob"))
    ann, bob = server.caller(token_of("ann")), server.caller(token_of("bob"))
    started = 0
    while started < 70 and not bob.call("shell_bg", command="sleep 300").refused:
        started += 1
    cx.note(f"one caller has {started} jobs")
    answer = ann.call("shell_bg", command="echo mine")
    check(not answer.refused, f"after {started} jobs of another she may start none: {answer.text[:100]}")


@case("D8", "one caller's running commands must not refuse another's", form="long", limit=120)
def commands_of_one_caller_leave_places_for_another(cx):
    server = cx.serve(tokens=("ann", "bob"))
    bob = [server.session(token_of("bob")) for _ in range(8)]
    sockets = [bob[number % 8].call_unread("shell", command="sleep 60", yield_after=0) for number in range(300)]
    answer = server.caller(token_of("ann")).call("shell", command="echo mine")
    for connection in sockets:
        connection.close()
    check("mine" in answer.text, f"with 300 calls of another she may run nothing: {answer.text[:100]}")


@case("D9", "however many wait for a job's output, stopping it must work, and say the truth")
def a_job_can_be_stopped_while_many_wait_for_it(cx):
    server = cx.serve(unix=True)
    client = cx.keep(server.lines())
    mark = f"{cx.mark}job"
    started = client.call("shell_bg", command="trap '' TERM; while :; do sleep 1; done", env={"ATTACK_CALL": mark})
    job = started.data["id"]
    cx.until(lambda: processes.carrying(mark), "the job runs")
    waiting = [client.begin("job_output", id=job, wait_exit=True, wait=60) for _ in range(40)]
    answered = client.call("job_output", id=job)
    check(not answered.refused, f"the job cannot be read: {answered.text[:100]}")
    stopped = client.call("job_stop", id=job, signal="KILL")
    cx.note(f"job_stop said: {stopped.text.splitlines()[0][:80] if stopped.text else ''}")
    cx.until_gone(mark, "job_stop KILL")
    check(not stopped.refused, f"the job is gone, but job_stop says {stopped.text[:100]}")
    for call in waiting:
        call.wait(cx.deadline)


@case("D12", "a command that kills its guard must end with it, not live on without anybody who could end it")
def a_command_that_kills_its_guard_ends(cx):
    server, mark = cx.serve(), f"{cx.mark}call"
    command = "setsid sleep 300 & sleep 300 & kill -9 $PPID; sleep 300"
    answer = server.caller(seconds=20).call("shell", command=command, env={"ATTACK_CALL": mark}, timeout=5)
    cx.note(f"answered: {answer.text[-60:].strip()!r}")
    cx.until_gone(mark, "its guard was killed")


@case("D12", "a command that stops its guard must still be ended by its timeout")
def a_command_that_stops_its_guard_meets_its_timeout(cx):
    server, mark = cx.serve(), f"{cx.mark}call"
    command = "setsid sleep 300 & kill -STOP $PPID; sleep 300"
    answer = server.caller(seconds=30).call("shell", command=command, env={"ATTACK_CALL": mark}, timeout=1)
    cx.note(f"answered: {answer.text[-60:].strip()!r}")
    cx.until_gone(mark, "the timeout")


@case("D12", "a command that stops its guard must still be ended when its call is cancelled")
def a_command_that_stops_its_guard_can_be_cancelled(cx):
    server, mark = cx.stdio(), f"{cx.mark}call"
    command = "setsid sleep 300 & kill -STOP $PPID; sleep 300"
    call = server.begin("shell", command=command, env={"ATTACK_CALL": mark})
    cx.until(lambda: len(processes.carrying(mark)) > 1 or call.done.is_set(), "the command runs, or was ended")
    call.cancel()
    cx.until_gone(mark, "the call was cancelled")


@case("D12", "a command that stops its guard must end with a server that is killed, or at its next start")
def a_command_that_stops_its_guard_ends_with_the_server(cx):
    server, mark = cx.stdio(), f"{cx.mark}call"
    command = "setsid sleep 300 & kill -STOP $PPID; sleep 300"
    call = server.begin("shell", command=command, env={"ATTACK_CALL": mark})
    cx.until(lambda: len(processes.carrying(mark)) > 1 or call.done.is_set(), "the command runs, or was ended")
    server.connection.close_input()
    cx.until_gone(mark, "the server ended")


@case("D12", "a command that stops its guard when nobody is left to notice must still end")
def a_command_that_stops_its_guard_after_the_server_has_gone_ends(cx):
    server, mark = cx.stdio(), f"{cx.mark}call"
    ready = cx.temporary / "ready"
    wait = f"trap '' TERM; : > {ready}; while kill -0 {server.pid}; do :; done 2> /dev/null"
    server.begin("shell", command=f"{wait}; kill -STOP $PPID; sleep 300", env={"ATTACK_CALL": mark})
    cx.until(ready.exists, "the command runs")
    server.kill()
    cx.until_gone(mark, "the server was killed")


@case("held", "whatever a command forks, and however it hides, it must be gone with its call")
def forks_that_hide_end_with_their_call(cx):
    server = cx.stdio()
    tricks = {
        "double fork": "(sleep 300 &) ; (setsid sh -c 'sleep 300 &' &) ; sleep 300",
        "signals ignored": "trap '' TERM HUP INT; setsid sh -c \"trap '' TERM HUP; sleep 300; sleep 300\" & sleep 300",
        "chain of forks": "f() { ( sleep 0.05; f ) & }; f; sleep 300",
    }
    calls = []
    for number, command in enumerate(tricks.values()):
        mark = f"{cx.mark}trick{number}."
        calls.append((server.begin("shell", command=command, env={"ATTACK_CALL": mark}, timeout=60), mark))
    for call, mark in calls:
        cx.until(lambda: len(processes.carrying(mark)) > 1, "the command runs")  # noqa: B023
        call.cancel()
    for name, (_, mark) in zip(tricks, calls):
        cx.until_gone(mark, f"the call was cancelled ({name})")


@case("held", "a job must go on without its server, and lose neither a line nor its exit code")
def a_job_survives_the_kill_of_its_server(cx):
    server = cx.serve()
    flag = cx.folder / "flag"
    command = f"seq 1 1500; until [ -e {flag} ]; do sleep 0.1; done; seq 1501 3000; exit 7"
    job = server.caller().call("shell_bg", command=command).data["id"]
    server.caller().call("job_output", id=job, wait_for="^1500$", wait=20)
    server.kill()
    flag.touch()
    after = cx.serve().caller()
    ended = after.call("job_output", id=job, wait_exit=True, wait=20, limit=1)
    equal(ended.data.get("exit_code"), 7, "the exit code")
    lines = "\n".join(map(str, range(1, 3001))) + "\n"
    equal(ended.data.get("total_bytes"), len(lines), "the length of its output")


@case("held", "output is on disk, never in memory, however much there is")
def output_without_end_takes_no_memory(cx):
    server = cx.serve()
    before = machine.resident_bytes(server.pid)
    answer = server.caller().call("shell", command="head -c 400000000 /dev/zero | tr '\\0' x", timeout=50)
    grown = machine.peak_bytes(server.pid) - before
    cx.note(f"400 MB of output took {machine.mib(grown)}")
    check(not answer.refused, f"the call failed: {answer.text[-200:]}")
    check(grown < 32 * machine.MIB, f"400 MB of output took {machine.mib(grown)}")


@case("held", "a server that ends takes the commands of its calls along")
def commands_end_with_a_killed_server(cx):
    server, mark = cx.serve(), f"{cx.mark}call"
    cx.keep(server.session().call_unread("shell", command="setsid sleep 300 & sleep 300", env={"ATTACK_CALL": mark}))
    cx.until(lambda: len(processes.carrying(mark)) > 1, "the command runs")
    server.process.send_signal(signal.SIGKILL)
    cx.until_gone(mark, "the server was killed")


# Takes all that the kernel watches (epoll) for a user, and keeps it.
TAKE_WATCHES = """
import os, resource, select, time
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
files, takers = [os.eventfd(0) for _ in range(most // 3)], []
try:
    for _ in range(most // 3):
        takers.append(select.epoll())
        for file in files:
            takers[-1].register(file, 0)
    open('few', 'w')
except OSError:
    open('full', 'w')
time.sleep(600)
"""


@case("D8", "a job that takes all that the kernel watches for its user is ended", ("user",), "long", True, 300)
def a_job_that_takes_all_watches_of_its_user_is_stopped(cx):
    caller = cx.stdio("--root", cx.root)
    (cx.root / "take.py").write_text(TAKE_WATCHES)
    job = caller.call("shell_bg", command=f"exec {cx.python()} take.py").data["id"]
    cx.until(lambda: is_there(cx.root / "full") or is_there(cx.root / "few"), "all is taken", 120)
    if is_there(cx.root / "few"):
        cx.note("a process may open too few files here to take all watches")
        return
    check(caller.call("shell", command="true").refused, "there are watches left")
    # To free so many takes the kernel a while.
    caller.call("job_stop", id=job)
    cx.until(lambda: not caller.call("shell", command="true").refused, "commands run again", 60)
    cx.until(lambda: '"running"' not in str(caller.call("jobs").data), "the job has ended", 60)
