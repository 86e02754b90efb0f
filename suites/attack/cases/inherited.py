"""What a server inherits from whoever starts it: signals that are ignored or blocked, limits, the umask."""

from harness.case import case, check

# Changes what a process passes on, and becomes the program that is named after it. Python ignores two signals by itself.
BECOME = """
import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
{change}
os.execvp(sys.argv[1], sys.argv[1:])
"""


def inheriting(cx, change):
    """Words that stand before a command, and make it inherit something."""
    return (cx.python(), "-c", BECOME.format(change=change))


NO_NEWS_OF_CHILDREN = "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"


@case("D32", "a server that was started to ignore SIGCHLD must learn how its first command ends")
def the_first_command_of_a_server_that_ignores_its_children_is_answered(cx):
    for options in ((), ("--root", cx.root)):
        server = cx.stdio(*options, wrap=inheriting(cx, NO_NEWS_OF_CHILDREN))
        answer = server.call("shell", command="sleep 0.1; grep SigIgn /proc/self/status; exit 3", timeout=10)
        check(answer.data.get("exit_code") == 3, f"{options}: it says {answer.text[:150]}")
        check(is_default(answer.text, 17), f"{options}: the command ignores its children, too: {answer.text[:150]}")
        mark = server.mark
        server.close()
        cx.until_gone(mark, "the end of the server")


@case("D32", "`lmcp run` that was started to ignore SIGCHLD must pass on how its command ends")
def a_run_that_ignores_its_children_passes_on_the_exit_code(cx):
    command = [*inheriting(cx, NO_NEWS_OF_CHILDREN), cx.binary, "run", "--", "sh", "-c", "exit 3"]
    code, _, said = cx.finish(command)
    check(code == 3, f"exit code {code}: {said[-200:]}")


@case("D33", "signals that are blocked where a server starts must reach its commands")
def commands_have_no_signals_blocked(cx):
    change = "signal.pthread_sigmask(signal.SIG_BLOCK, set(range(1, 65)) - {32, 33})"
    for options in ((), ("--root", cx.root)):
        server = cx.stdio(*options, wrap=inheriting(cx, change))
        answer = server.call("shell", command="grep SigBlk /proc/self/status")
        check("0000000000000000" in answer.text, f"{options}: the command has {answer.text[:150]}")
        answer = server.call("shell", command="sleep 300", timeout=1)
        check(answer.data.get("timed_out"), f"{options}: {answer.text[:150]}")
        check(answer.data.get("signal") == "SIGTERM", f"{options}: it is ended by {answer.data.get('signal')}")


def is_default(status, number):
    """Is this signal not among those that are ignored?"""
    mask = status.partition("SigIgn:")[2].split()
    return bool(mask) and not int(mask[0], 16) >> (number - 1) & 1


@case("D34", "a limit on the size of files makes a write fail, and ends neither the server nor a guard")
def a_file_beyond_the_limit_ends_no_server(cx):
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))"
    for options in ((), ("--root", cx.root)):
        server = cx.stdio(*options, wrap=inheriting(cx, limit))
        large = "x" * (2 << 20)
        answer = server.call("write_file", path=str(cx.root / "large"), content=large)
        check(answer.refused, f"{options}: {answer.text[:150]}")
        check(not list(cx.root.iterdir()), f"{options}: it leaves {list(cx.root.iterdir())}")
        # What the command reads, its own line, and its output: each is written to a file first.
        for name, call in {
            "input": {"command": "cat | wc -c", "stdin": large},
            "line": {"command": f": {large}; echo done"},
            "output": {"command": f"head -c {2 << 20} /dev/zero | tr '\\0' y; echo done"},
        }.items():
            answer = server.call("shell", **call)
            cx.note(f"{name}: {answer.text[:60]!r}")
            check(server.is_alive(), f"{options}: the server has ended after a long {name}")
            check("guard of the command is gone" not in answer.text, f"{options}: {name}: {answer.text[:150]}")
        check(answer.data.get("exit_code") == 0, f"{options}: with a long output: {answer.text[:150]}")
        check("could not be recorded" in answer.text, f"{options}: a lost end is not told: {answer.text[:150]}")
        # The command itself is ended, as it would be anywhere.
        answer = server.call("shell", command=f"cd {cx.root}; dd if=/dev/zero of=big bs=2M count=1; echo ended $?")
        check("ended 153" in answer.text, f"{options}: the command goes on: {answer.text[:150]}")
        (cx.root / "big").unlink(missing_ok=True)


@case("D37", "what one session's process passes on to the user's own server must not hold for the sessions of others")
def the_own_server_keeps_nothing_of_the_session_that_started_it(cx):
    odd = "os.umask(0); resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, -1)); " + NO_NEWS_OF_CHILDREN
    first = cx.proxy("--own", wrap=inheriting(cx, odd))
    check("alive" in first.call("shell", command="echo alive").text, "the first session is not served")
    for session, umask, wanted in ((first, 0, None), (None, 0o022, 0o644), (None, 0o077, 0o600)):
        session = session or cx.proxy("--own", wrap=inheriting(cx, f"os.umask({umask})"))
        said = session.call("shell", command="umask; ulimit -f; touch by-command", cwd=str(cx.home)).data["stdout"].split()
        check(int(said[0], 8) & ~0o022 == umask & ~0o022, f"umask {umask:04o}: a command has {said}")
        check(wanted is None or int(said[0], 8) == umask, f"umask {umask:04o}: a command has {said}")
        check(said[1] == "unlimited", f"umask {umask:04o}: a command has the limit of another session: {said}")
        session.call("write_file", path=str(cx.home / "new/by-tool"), content="x" * (2 << 20), parents=True)
        for name in ("by-command", "new/by-tool"):
            mode = (cx.home / name).stat().st_mode & 0o777
            check(mode == wanted or wanted is None and mode & 0o002 == 0, f"umask {umask:04o}: {name} has {mode:04o}")
            (cx.home / name).unlink()
        mode = (cx.home / "new").stat().st_mode & 0o777
        check(wanted is None or mode == 0o777 & ~umask, f"umask {umask:04o}: a new folder has {mode:04o}")
        (cx.home / "new").rmdir()


@case("D37", "what the user's own server cannot shed of the session that started it is in its log", needs=["user"])
def what_the_own_server_cannot_shed_is_in_its_log(cx):
    odd = "os.nice(5); resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 22, 1 << 22))"
    session = cx.proxy("--own", wrap=inheriting(cx, odd))
    check("alive" in session.call("shell", command="echo alive").text, "the session is not served")
    said = (cx.runtime / "lmcp/serve.log").read_text()
    check("size of files" in said and "priority" in said, f"the log says: {said}")
