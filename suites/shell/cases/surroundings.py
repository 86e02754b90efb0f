"""What a command finds around it: folder, environment, descriptors, signals and terminal."""

import os
import pty
import shutil
import subprocess

from driver.case import case, check, equal
from driver.profile import Cannot


@case("the folder that is asked for is the one it runs in")
def cwd(cx):
    folder = cx.folder / "with space é"
    folder.mkdir()
    equal(cx.run("pwd -P", cwd=str(folder))["stdout"], f"{folder.resolve()}\n", "stdout")


@case("variables arrive as they are, and the rest of the environment is still there")
def environment(cx):
    env = {"SUITE_A": "b c \"d\" '$HOME' é\nsecond line", "SUITE_EMPTY": ""}
    result = cx.run('printf "%s|%s|%s" "$SUITE_A" "${SUITE_EMPTY-unset}" "${PATH:+path}"', env=env)
    equal(result["stdout"], f"{env['SUITE_A']}||path", "stdout")


@case("one command's variables are not the next one's")
def environment_does_not_stick(cx):
    cx.run("export SUITE_B=2", env={"SUITE_A": "1"})
    equal(cx.run('echo "${SUITE_A-none} ${SUITE_B-none}"')["stdout"], "none none\n", "stdout")


@case("a program with arguments is run without a shell")
def argv(cx):
    result = cx.call("run", argv=["printf", "%s|", "a b", "$HOME", "*", "", "é"])
    equal(result["stdout"], "a b|$HOME|*||é|", "stdout")


@case("no descriptor of the server leaks into the command: 0, 1, 2 and the listing's own")
def descriptors(cx):
    cx.begin("run", command="sleep 1")
    names = cx.run("ls /proc/self/fd")["stdout"].split()
    links = cx.run("ls -l /proc/self/fd")["stdout"]
    check(set(names) <= {"0", "1", "2", "3"}, f"it has {names}: {links[-400:]}")


@case("no signal is ignored or blocked: `yes | head` ends quietly", "Rust and Python ignore SIGPIPE", ["own"])
def signals_are_default(cx):
    status = cx.run("grep -E 'Sig(Blk|Ign)' /proc/self/status")["stdout"].split()
    # Bits from 31 on are real-time signals; the C library keeps the first of them for itself.
    masks = [int(mask, 16) & 0x7FFFFFFF for mask in status[1::2]]
    equal([hex(mask) for mask in masks], ["0x0", "0x0"], "the mask of (blocked, ignored) signals")
    result = cx.run("yes | head -n 1")
    equal(result["stdout"], "y\n", "stdout")


@case(
    "without a terminal asked for there is none",
    "DesktopCommander#552: a prompt lands on the server's own terminal",
    ["own"],
)
def no_controlling_terminal(cx):
    ours, theirs = pty.openpty()
    try:
        cx.start_server(terminal=os.ttyname(theirs))
        result = cx.run("tty; if ( : > /dev/tty ) 2>/dev/null; then echo reached; else echo none; fi")
        lines = result["stdout"].splitlines()
        check("not a tty" in lines[0], f"`tty` says {lines[0]!r}")
        equal(lines[-1], "none", "the terminal behind /dev/tty")
    finally:
        os.close(ours)
        os.close(theirs)


@case("with a terminal asked for there is one, on all three, with a size")
def terminal(cx):
    result = cx.run("tty && test -t 0 && test -t 1 && test -t 2 && stty size && ( : > /dev/tty ) && echo all", tty=True)
    lines = result["stdout"].split()
    check(lines and lines[0].startswith("/dev/"), f"`tty` says {result['stdout']!r}")
    check(lines[-1] == "all", f"it stops after {result['stdout']!r}")
    rows, columns = map(int, lines[1:3])
    check(rows > 0 and columns > 0, f"its size is {rows}x{columns}")


@case("a command on a terminal that waits for input is bounded by its timeout", "DesktopCommander#552", ["sees"])
def terminal_timeout(cx):
    result = cx.run("printf 'Password: '; read x", tty=True, timeout=1)
    check(result.elapsed < 15, f"the answer took {result.elapsed:.1f} s")
    check("Password:" in result["stdout"], "the prompt is missing")
    cx.vanishes("the timeout")


@case("pagers do not run, whatever the server's own environment says", needs=["own"])
def pagers_off(cx):
    cx.profile.promise("plain_output")
    repository = history(cx)
    cx.start_server(env={"PAGER": "sleep 300; cat", "GIT_PAGER": "sleep 300; cat", "LESS": ""})
    for args in [{}, *([{"tty": True}] if cx.profile.takes("run", "tty") else [])]:
        result = cx.run("git log --format=%s", cwd=str(repository), **args)
        check(result.elapsed < 15, "git waited for a pager")
        check("the only commit" in result["stdout"], f"stdout is {result['stdout']!r}")


@case("a plain command does not colour its output")
def colours_off(cx):
    repository = history(cx)
    result = cx.run("git log; ls --color=auto; git -c color.ui=auto diff HEAD", cwd=str(repository))
    check("the only commit" in result["stdout"], f"stdout is {result['stdout']!r}")
    check("\033" not in result["stdout"], "there are escape sequences in it")


def history(cx):
    """A repository with one commit and one change."""
    if not shutil.which("git"):
        raise Cannot("git is not installed")
    folder = cx.folder / "repository"
    folder.mkdir()
    who = ["-c", "user.name=suite", "-c", "user.email=suite@localhost", "-c", "init.defaultBranch=main"]
    (folder / "file").write_text("one\n")
    for args in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", "the only commit"]):
        subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True, timeout=20)
    (folder / "file").write_text("two\n")
    return folder
