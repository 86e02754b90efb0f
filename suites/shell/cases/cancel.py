"""Cancel means stopped: whatever a cancelled command had started is gone, in every state of the call."""

from driver.case import case, check, equal
from driver.profile import Cannot

from .words import ESCAPE, STUBBORN, TREE


def cancelled(cx, command, processes=1, **args):
    """Begins, waits until it runs, cancels, and sees that nothing is left."""
    call = cx.begin("run", command=command, **args)
    cx.until(lambda: call.answered or len(cx.alive()) >= processes, f"{processes} processes of the call appear")
    check(not call.answered, "the command was ended before it was cancelled")
    call.cancel()
    cx.vanishes("the cancel")
    cx.still_answers()
    return call


@case("a cancel right behind the request: the command never runs, or is stopped", needs=["own"])
def before_it_starts(cx):
    params = cx.params("run", "", {"command": "sleep 300 & sleep 300"})
    for _ in range(20):
        cx.server.request_and_cancel("tools/call", params)
    cx.still_answers()
    # Whatever slipped through must end, so look when the last of them had the time to start.
    equal(cx.run("echo after", mark="after.")["stdout"], "after\n", "stdout of the next command")
    cx.vanishes("the cancel")


@case(
    "a silent command is stopped, its tree with it",
    "goose#1075: the token is ignored; or the child is not killed",
    ["sees"],
)
def while_silent(cx):
    cancelled(cx, TREE, 5)


@case("a command that floods its output is stopped", needs=["sees"])
def while_flooding(cx):
    cancelled(cx, "yes & yes >&2", 2)


@case("a tree that ignores TERM, HUP, INT and QUIT is stopped", "Desktop Commander: TERM to the shell alone", ["sees"])
def while_ignoring_signals(cx):
    cancelled(cx, STUBBORN, 2)


@case("a double fork with setsid does not escape the cancel", "metamcp#128, claude-code#15211", ["sees"])
def while_escaping(cx):
    cancelled(cx, f"{ESCAPE}; sleep 300", 4)


@case("a command that waits for more stdin than it gets read is stopped", needs=["sees"])
def while_not_reading(cx):
    cancelled(cx, "sleep 300", stdin="x" * 1_000_000)


@case("a command on a terminal is stopped", needs=["sees"])
def on_a_terminal(cx):
    cancelled(cx, "sleep 300 & sleep 300", 2, tty=True)


@case("a child that still holds the pipe after the shell's end is stopped", needs=["sees"])
def while_a_child_lingers(cx):
    call = cx.begin("run", command="setsid sh -c 'trap \"\" TERM; sleep 300' & sleep 300")
    cx.appears(3)
    call.cancel()
    cx.vanishes("the cancel")


@case("a cancelled call is not answered any more", "go-sdk#1259: always answered", ["sees"])
def no_answer(cx):
    call = cancelled(cx, "sleep 300")
    cx.still_answers()
    check(not call.answered, "the cancelled call was answered")


@case("a second cancel, and one of an id that never was, are harmless", needs=["sees"])
def twice(cx):
    call = cx.begin("run", command=STUBBORN)
    cx.appears(2)
    call.cancel()
    call.cancel()
    cx.server.cancel_id(987654)
    cx.vanishes("the cancel")
    cx.still_answers()


@case("a cancel that comes after the answer is harmless")
def after_the_end(cx):
    call = cx.begin("run", command="echo one")
    equal(call.wait()["stdout"], "one\n", "stdout")
    call.cancel()
    equal(cx.run("echo two")["stdout"], "two\n", "stdout")


@case("cancelling one call leaves the others alone", needs=["sees"])
def only_the_one_meant(cx):
    flag, wait = cx.flag()
    kept = cx.begin("run", mark="kept.", command=f"{wait}; echo kept")
    meant = cx.begin("run", mark="meant.", command="sleep 300")
    cx.appears(1, "kept.")
    cx.appears(1, "meant.")
    meant.cancel()
    cx.vanishes("the cancel", "meant.")
    flag.touch()
    equal(kept.wait()["stdout"], "kept\n", "stdout of the other call")


@case(
    "a hundred cancels of `sleep 300 & sleep 300` leave nothing",
    "cancelled work keeps running, and is tried again",
    ["sees"],
    limit=50,
)
def hundred_times(cx):
    for _ in range(5):
        calls = [cx.begin("run", command="sleep 300 & sleep 300") for _ in range(20)]
        cx.appears(20)
        for call in calls:
            call.cancel()
    cx.vanishes("the cancels")
    cx.still_answers()


@case("a wait for a job's output ends by cancel, and the job runs on", needs=["sees"])
def waiting_for_a_job(cx):
    flag, wait = cx.flag()
    job = cx.start(f"{wait}; echo done")
    if not (cx.profile.takes("read", "wait_for") and cx.profile.takes("read", "wait")):
        raise Cannot("`read` cannot wait")
    reading = cx.begin("read", id=job, wait_for="never", wait=100)
    reading.cancel()
    cx.still_answers()
    flag.touch()
    check("done" in cx.shows(job, "done"), "the job did not go on")
