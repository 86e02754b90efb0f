"""Stopping and restarting jobs: the whole tree, and never a stranger."""

import subprocess

from driver import processes
from driver.case import case, check, equal

from .words import ESCAPE, STUBBORN, TREE


def stopped(cx, command, count, **args):
    job = cx.start(command)
    cx.appears(count)
    result = cx.call("stop", id=job, **args)
    check(not result.refused, f"it is an error: {result.text[:200]}")
    cx.vanishes("the stop")
    check(cx.ended(job)["state"] != "running", "it is said to be running")
    return job


@case("a stop is polite first: the job may say goodbye, and that is kept", needs=["sees"])
def politely_first(cx):
    job = cx.start("trap 'echo bye; exit 7' TERM INT; echo ready; while :; do sleep 0.1; done")
    cx.shows(job, "ready")
    cx.call("stop", id=job)
    equal(cx.ended(job)["exit_code"], 7, "the exit code")
    check("bye" in cx.output(job), "its last words are lost")


@case("a stop ends the tree of three levels", "Desktop Commander: SIGINT, then SIGKILL, to the shell alone", ["sees"])
def the_tree(cx):
    stopped(cx, TREE, 5)


@case("a tree that ignores TERM is killed after the grace", needs=["sees"])
def the_stubborn(cx):
    args = {"grace": 1} if cx.profile.takes("stop", "grace") else {}
    job = stopped(cx, STUBBORN, 2, **args)
    if cx.profile.tells("read", "signal"):
        equal(cx.call("read", id=job)["signal"], "SIGKILL", "the signal")


@case("a double fork with setsid does not escape the stop", needs=["sees"])
def what_escapes(cx):
    stopped(cx, f"{ESCAPE}; sleep 300", 4)


@case("a stopped job is told apart from one that ended by itself")
def says_killed(cx):
    job = cx.start("exec sleep 300")
    cx.call("stop", id=job)
    reading = cx.ended(job)
    check(reading["exit_code"] != 0, "its exit code is 0")
    equal((reading["state"], reading["signal"]), ("killed", "SIGTERM"), "(state, signal)")


@case("a signal that is asked for is the one that is sent")
def given_signal(cx):
    job = cx.start("trap 'echo usr1; exit 8' USR1; echo ready; while :; do sleep 0.1; done")
    cx.shows(job, "ready")
    cx.call("stop", id=job, signal="USR1")
    equal(cx.ended(job)["exit_code"], 8, "the exit code")


@case("a signal that is none is a clear error, and nothing is sent")
def unknown_signal(cx):
    job = cx.start("sleep 300")
    result = cx.call("stop", id=job, signal="NOSUCH")
    check(result.refused and "NOSUCH" in result.text, f"it is taken: {result.text[:200]!r}")
    equal(cx.call("read", id=job)["state"], "running", "the state")


@case("a stop of a job that has ended says so")
def already_ended(cx):
    job = cx.start("exit 3")
    cx.ended(job)
    result = cx.call("stop", id=job)
    told = result.refused or (result.tells("state") and result["state"] == "exited")
    check(told, f"it is reported as stopped: {result.text[:200]!r}")
    equal(cx.ended(job)["exit_code"], 3, "the exit code afterwards")


@case(
    "a stranger that got the pid of an ended job is never signalled",
    "Desktop Commander: the pid is the id",
    needs=["own"],
)
def never_a_stranger(cx):
    result = cx.call("start", command="exit 0")
    job, pid = result["id"], result["pid"]
    cx.ended(job)
    cx.until(lambda: not processes.state(pid), f"process {pid} is gone")
    stranger = with_pid(cx, pid)
    cx.call("stop", id=job)
    if cx.profile.takes("input", "keys"):
        cx.call("input", id=job, keys=["ctrl-c"])
    # Whatever was sent has arrived when the server has answered and had the time of a grace.
    cx.wait_until(lambda: stranger.poll() is not None, 1.5)
    check(stranger.poll() is None, f"the stranger got signal {-(stranger.poll() or 0)}")


def with_pid(cx, pid):
    """A process of ours, with this pid if the kernel lets us choose; if not, any stands for the stranger."""
    for _ in range(50):
        try:
            with open("/proc/sys/kernel/ns_last_pid", "w") as file:
                file.write(str(pid - 1))
        except OSError:
            pass
        child = subprocess.Popen(["sleep", "300"], start_new_session=True)
        cx.children.append(child)
        if child.pid == pid:
            break
    return child


@case("two stops at once, and one more, do no harm", needs=["sees"])
def twice(cx):
    job = cx.start(STUBBORN)
    cx.appears(2)
    args = {"grace": 1} if cx.profile.takes("stop", "grace") else {}
    for call in [cx.begin("stop", id=job, **args) for _ in range(2)]:
        call.wait()
    cx.vanishes("the stops")
    cx.call("stop", id=job)
    cx.still_answers()


@case("stopping one job leaves the others alone", needs=["sees"])
def only_the_one_meant(cx):
    kept, meant = cx.start("exec sleep 300", mark="kept."), cx.start("exec sleep 300", mark="meant.")
    cx.appears(1, "kept.")
    cx.appears(1, "meant.")
    cx.call("stop", id=meant)
    cx.vanishes("the stop", "meant.")
    check(cx.alive("kept."), "the other job ended too")
    equal(cx.call("read", id=kept)["state"], "running", "the state of the other job")


@case("a restart ends the old run and begins a new one of the same command", needs=["sees"])
def restart(cx):
    counter = cx.folder / "runs"
    result = cx.call("start", command=f"echo run >> {counter}; echo up; sleep 300")
    job, old = result["id"], result["pid"]
    cx.shows(job, "up")
    again = cx.call("stop", id=job, restart=True)
    check(not again.refused, f"it is an error: {again.text[:200]}")
    cx.until(lambda: counter.read_text().count("run") == 2, "the command runs again")
    cx.until(lambda: not processes.exists(old), "the old run ends")
    new = again["new_id"] or job
    equal(cx.call("read", id=new)["state"], "running", "the state")
    cx.call("stop", id=new)
    cx.vanishes("the stop")


@case("a job that has ended can be started again")
def restart_after_the_end(cx):
    counter = cx.folder / "runs"
    job = cx.start(f"echo run >> {counter}; exit 3")
    cx.ended(job)
    again = cx.call("stop", id=job, restart=True)
    check(not again.refused, f"it is an error: {again.text[:200]}")
    cx.until(lambda: counter.read_text().count("run") == 2, "the command runs again")
