"""A timeout kills, a yield hands over, and neither is mistaken for the other."""

from driver.case import case, check, equal

from .words import ESCAPE, STUBBORN, TREE


def timed_out(cx, command, **args):
    result = cx.run(command, timeout=1, **args)
    check(result.elapsed < 15, f"the answer took {result.elapsed:.1f} s")
    cx.vanishes("the timeout")
    if result.tells("timed_out"):
        check(result["timed_out"], "timed_out is not set")
    return result


@case("a timeout kills the tree of three levels", "Desktop Commander, goose: only the shell is killed", ["sees"])
def kills_the_tree(cx):
    timed_out(cx, TREE)


@case("a double fork with setsid does not escape the timeout", "metamcp#128", ["sees"])
def kills_what_escapes(cx):
    timed_out(cx, f"{ESCAPE}; sleep 300")


@case("a tree that ignores TERM does not survive the timeout", needs=["sees"])
def kills_the_stubborn(cx):
    timed_out(cx, STUBBORN)


@case("what was written before the timeout is in the answer", needs=["sees"])
def keeps_the_output(cx):
    result = timed_out(cx, "echo before; echo also >&2; sleep 300")
    equal(result["stdout"], "before\n", "stdout")


@case("a command that timed out is an error, without an exit code of its own", needs=["sees"])
def is_an_error(cx):
    result = timed_out(cx, "sleep 300")
    check(result.refused, "it is reported as a success")
    check(result["exit_code"] != 0, "the exit code is 0")


@case("a TERM handler gets its chance before the kill", needs=["sees"])
def lets_it_say_goodbye(cx):
    result = timed_out(cx, "trap 'echo bye; exit 3' TERM; while :; do sleep 0.1; done")
    equal(result["stdout"], "bye\n", "stdout")


@case("a command that ends in time is not called timed out")
def not_reached(cx):
    result = cx.run("echo quick", timeout=20)
    equal((result["stdout"], bool(result["timed_out"])), ("quick\n", False), "(stdout, timed_out)")


@case(
    "a timeout shorter than the yield kills and hands nothing over",
    "Desktop Commander: «timeout» means «stop waiting»",
    ["sees"],
)
def before_the_yield(cx):
    result = timed_out(cx, "sleep 300", yield_after=20)
    check(not result["job"], f"it was handed over as {result['job']}")


@case(
    "a long command is handed over as a job, and nothing of it is lost",
    "DesktopCommander#447: calls longer than the client's patience",
)
def yield_hands_over(cx):
    flag, wait = cx.flag()
    result = cx.run(f"echo early; {wait}; echo late; exit 3", yield_after=1)
    check(result.elapsed < 15, f"the answer took {result.elapsed:.1f} s")
    job = result["job"]
    check(job, "the answer names no job")
    check("early" in result["stdout"], f"what it had written is missing: {result['stdout']!r}")
    flag.touch()
    equal(cx.ended(job)["exit_code"], 3, "the exit code")
    check("late" in cx.output(job), "the rest of its output is missing")


@case("a job handed over has all of the output, from the first byte")
def handed_over_whole(cx):
    flag, wait = cx.flag()
    job = cx.run(f"seq 1 3000; {wait}; seq 3001 6000", yield_after=1)["job"]
    flag.touch()
    cx.ended(job)
    equal(cx.output(job), "".join(f"{n}\n" for n in range(1, 6001)), "the output")


@case("a command that is quicker than the yield is no job")
def yield_not_reached(cx):
    result = cx.run("echo quick", yield_after=15)
    equal((result["stdout"], result["job"]), ("quick\n", None), "(stdout, job)")


@case("after the hand-over the timeout does what the profile documents", needs=["sees"])
def after_the_yield(cx):
    documented = cx.profile.promise("timeout_after_yield")
    flag, wait = cx.flag()
    job = cx.run(f"{wait}; echo late", yield_after=1, timeout=3)["job"]
    check(job, "the answer names no job")
    killed = cx.wait_until(lambda: cx.call("read", id=job)["state"] != "running", 5)
    if documented != "any":
        equal("kills" if killed else "lifted", documented, "what the timeout does")
    if killed:
        cx.vanishes("the timeout of the job")
    else:
        flag.touch()
        check("late" in cx.shows(job, "late"), "the job did not go on")
