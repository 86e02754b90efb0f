"""The end of the server, by whatever means: running calls end with it, jobs do not."""

import os
import signal
import time

from driver import processes
from driver.case import case, check, equal

from .words import ESCAPE, STUBBORN

KILLED = "mcp servers that are killed leave builds and servers behind: claude-code#15211, metamcp#128"


def call_ends(cx, end, command, count, after):
    cx.begin("run", command=command)
    cx.appears(count)
    end(cx.server)
    cx.vanishes(after)


def kill(server):
    server.signal(signal.SIGKILL)


@case("kill -9 of the server ends a running command", KILLED, ["own"])
def kill_ends_a_command(cx):
    call_ends(cx, kill, "sleep 300 & sleep 300", 2, "kill -9 of the server")


@case("and one in a session of its own", KILLED, ["own"])
def kill_ends_a_session(cx):
    call_ends(cx, kill, "setsid sleep 300 & setsid sh -c 'sleep 300; :' & sleep 300", 4, "kill -9 of the server")


@case("and one that forked twice to escape", KILLED, ["own"])
def kill_ends_what_escapes(cx):
    call_ends(cx, kill, f"{ESCAPE}; sleep 300", 4, "kill -9 of the server")


@case("and one that ignores signals", KILLED, ["own"])
def kill_ends_the_stubborn(cx):
    call_ends(cx, kill, STUBBORN, 2, "kill -9 of the server")


@case("and what an earlier command had left running", KILLED, ["own"])
def kill_ends_what_was_left(cx):
    cx.profile.promise("ends_with_server")
    call = cx.begin("run", command="sleep 300 & setsid sleep 300 & echo hi")
    cx.appears(2)
    cx.wait_until(lambda: call.answered, 5)
    cx.appears(2)
    kill(cx.server)
    cx.vanishes("kill -9 of the server")


@case(
    "a client that leaves (stdin closed) ends its running commands, and the server",
    "EOF is a cancel too",
    ["own"],
)
def disconnect_ends_commands(cx):
    call_ends(cx, lambda server: server.close_input(), f"{ESCAPE}; setsid sleep 300 & sleep 300", 5, "the client left")
    check(cx.server.ended_by(time.monotonic() + 10), "the server goes on")


@case("TERM ends the server and its running commands", needs=["own"])
def term_ends_commands(cx):
    call_ends(cx, lambda server: server.signal(signal.SIGTERM), f"{ESCAPE}; sleep 300", 4, "TERM of the server")
    check(cx.server.ended_by(time.monotonic() + 10), "the server goes on")


def leave(server):
    server.close_input()
    check(server.ended_by(time.monotonic() + 10), "the server does not end when its client leaves")


def end_by_kill(server):
    kill(server)
    server.ended_by(time.monotonic() + 5)


def survives(cx, end):
    """One job that runs through, one that ends while there is no server, one that had ended before."""
    cx.profile.promise("jobs_survive")
    through, wait_through = cx.flag("through")
    meanwhile, wait_meanwhile = cx.flag("meanwhile")
    long = cx.start(f"echo one; {wait_through}; echo two; exit 4", mark="long.")
    short = cx.start(f"echo begun; {wait_meanwhile}; echo ended; exit 6", mark="short.")
    past = cx.start("echo past; exit 5", mark="past.")
    cx.shows(long, "one")
    cx.shows(short, "begun")
    cx.ended(past)

    end(cx.server)
    meanwhile.touch()
    cx.vanishes("its last line", "short.")
    check(cx.alive("long."), "the job ended with the server")

    cx.start_server()
    rows = {name: cx.listed(job) for name, job in (("long", long), ("short", short), ("past", past))}
    told = {name: (row["state"], row["exit_code"]) for name, row in rows.items()}
    equal(told, {"long": ("running", None), "short": ("exited", 6), "past": ("exited", 5)}, "what the list says")
    equal(cx.output(short), "begun\nended\n", "the output of the job that ended meanwhile")
    equal(cx.output(past), "past\n", "the output of the job that had ended before")
    through.touch()
    equal(cx.ended(long)["exit_code"], 4, "the exit code of the job that ran through")
    equal(cx.output(long), "one\ntwo\n", "its output")


@case(
    "jobs survive a server that ends in peace, and the next one finds them",
    "Desktop Commander: all sessions are lost",
    ["own"],
)
def jobs_survive_the_end(cx):
    survives(cx, leave)


@case(
    "jobs survive kill -9 of the server, and the next one finds them",
    "Desktop Commander: all sessions are lost",
    ["own"],
)
def jobs_survive_kill(cx):
    survives(cx, end_by_kill)


@case("a job that outlived its server can be stopped by the next, tree and all", needs=["own"])
def stop_a_survivor(cx):
    cx.profile.promise("jobs_survive")
    job = cx.start(f"{ESCAPE}; sleep 300")
    cx.appears(4)
    end_by_kill(cx.server)
    cx.appears(4)
    cx.start_server()
    cx.call("stop", id=job)
    cx.vanishes("the stop by the next server")


@case("a job that outlived its server takes input from the next", needs=["own"])
def input_for_a_survivor(cx):
    cx.profile.promise("jobs_survive")
    job = cx.start('while read line; do echo "got $line"; done')
    cx.call("input", id=job, text="one\n")
    cx.shows(job, "got one")
    end_by_kill(cx.server)
    cx.start_server()
    result = cx.call("input", id=job, text="two\n")
    check(not result.refused, f"it is refused: {result.text[:200]}")
    cx.shows(job, "got two")


@case("a job that was handed over survives like any other", needs=["own"])
def handed_over_survives(cx):
    cx.profile.promise("jobs_survive")
    flag, wait = cx.flag()
    job = cx.run(f"echo early; {wait}; echo late; exit 3", yield_after=1)["job"]
    end_by_kill(cx.server)
    cx.start_server()
    flag.touch()
    equal(cx.ended(job)["exit_code"], 3, "the exit code")
    equal(cx.output(job), "early\nlate\n", "the output")


@case("a job whose processes were all killed while there was no server is not said to run", needs=["own"])
def killed_meanwhile(cx):
    cx.profile.promise("jobs_survive")
    job = cx.start("sleep 300")
    cx.appears()
    end_by_kill(cx.server)
    for pid in [pid for pid in cx.alive() if processes.name(pid) in processes.COMMANDS]:
        os.kill(pid, signal.SIGKILL)
    cx.vanishes("kill -9 of the job")
    cx.start_server()
    state = cx.ended(job)["state"]
    check(state in ("exited", "killed", "lost"), f"its state is {state!r}")
