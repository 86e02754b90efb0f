"""A call ends when its command ends, whoever still holds the pipes, and stdin never makes it hang."""

import hashlib
import os

from driver import processes
from driver.case import case, check, equal

from .words import letters

# The children sleep for 300 s: whoever waits for them misses this by far.
PROMPT = 15


def prompt(result):
    check(result.elapsed < PROMPT, f"the answer took {result.elapsed:.1f} s")


@case(
    "a background child that inherits the pipe must not hold up the answer",
    "opencode#47350, gptme#3756: 81 minutes pinned",
)
def inherited_pipe(cx):
    result = cx.run("sleep 300 & echo hi")
    prompt(result)
    equal(result["stdout"], "hi\n", "stdout")


@case("nor a child in a session of its own that holds the pipe", "opencode#20902, docker-agent PR2462")
def inherited_pipe_setsid(cx):
    result = cx.run("setsid sleep 300 & echo hi")
    prompt(result)
    equal(result["stdout"], "hi\n", "stdout")


@case("output that a background child writes before the shell ends is kept", "goose loses it")
def output_of_a_child_is_kept(cx):
    done, wait = cx.flag()
    result = cx.run(f"( echo child; : > {done}; sleep 300 ) & {wait}; echo parent")
    prompt(result)
    equal(result["stdout"], "child\nparent\n", "stdout")


@case("a daemon that puts itself into the background and closes its stdio is a normal ending")
def daemon(cx):
    result = cx.run("( setsid sh -c 'exec </dev/null >/dev/null 2>&1; sleep 300' & ); echo started")
    prompt(result)
    equal(result["stdout"], "started\n", "stdout")
    cx.appears()


@case(
    "what a command leaves running is told, so that nobody is surprised by it",
    "Claude Code loses self-backgrounded work",
)
def left_running_is_reported(cx):
    result = cx.run("sleep 300 & setsid sleep 301 & echo hi")
    sleepers = [pid for pid in cx.alive() if processes.arguments(pid)[:1] == ["sleep"]]
    equal(len(sleepers), 2, "the number of sleepers")
    equal(sorted(result["left_running"] or []), sorted(sleepers), "left_running")


@case("nothing is reported as left running when nothing is")
def nothing_left_running(cx):
    result = cx.run("sleep 0.1 & wait; echo hi")
    equal(result["left_running"] or [], [], "left_running")


@case("what was left running ends when the server does", "30 shells at 7.6 cores for 25 h", needs=["own"])
def left_running_ends_with_the_server(cx):
    cx.profile.promise("ends_with_server")
    call = cx.begin(
        "run", command="sleep 300 & setsid sleep 300 & ( setsid sh -c 'sleep 300 & sleep 300' & ) ; echo hi"
    )
    cx.appears(4)
    cx.wait_until(lambda: call.answered, 5)
    # The shell that answered was one of the four; the last of them may only now be started.
    cx.appears(4)
    cx.server.close_input()
    cx.vanishes("the server was asked to end")


@case(
    "`cat` without input ends at once: stdin is empty, not open", "mcp-server-commands: stdin stays open, `cat` hangs"
)
def stdin_empty_for_cat(cx):
    result = cx.run("cat; echo end")
    prompt(result)
    equal(result["stdout"], "end\n", "stdout")


@case("`read` without input fails instead of waiting")
def stdin_empty_for_read(cx):
    result = cx.run("if read x; then echo got; else echo none; fi")
    prompt(result)
    equal(result["stdout"], "none\n", "stdout")


@case("a command must not read the protocol from the server's own stdin", needs=["own"])
def stdin_is_not_the_protocol(cx):
    protocol = os.readlink(f"/proc/self/fd/{cx.server.process.stdin.fileno()}")
    check(cx.run("readlink /proc/self/fd/0")["stdout"].strip() != protocol, "the command shares the server's stdin")


@case("stdin that is given arrives as it is, and ends")
def stdin_given(cx):
    text = "héllo\n\ttwo words\\n 'quoted' $HOME €\nno newline"
    equal(cx.run("cat", stdin=text)["stdout"], text, "stdout")


@case("a megabyte of stdin arrives whole while output comes back")
def stdin_large(cx):
    text = "".join(f"line {n}\n" for n in range(80_000))
    result = cx.run("tee /dev/stderr | sha256sum", stdin=text)
    equal(result["stdout"].split()[0], hashlib.sha256(text.encode()).hexdigest(), "the hash of stdin")


@case("a command that does not read its stdin is no failure")
def stdin_unread(cx):
    result = cx.run("echo fine", stdin="x" * 1_000_000)
    prompt(result)
    equal(result["stdout"], "fine\n", "stdout")
    check(not result.refused, f"it is reported as an error: {result.text[:200]}")


@case(
    "a megabyte on stderr before the first byte on stdout must not block",
    "pipes read one after the other",
)
def stderr_first(cx):
    result = cx.run(f"({letters(1_000_000, 'Q')}) >&2; echo out")
    prompt(result)
    check("out\n" in result["stdout"], f"stdout lost its line: {result['stdout'][-100:]!r}")
