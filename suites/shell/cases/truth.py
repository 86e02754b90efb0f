"""Exit codes, signals and mistakes are told as they are."""

from driver.case import case, check, equal


@case("every exit code is the command's own", "Claude Code said «killed» while it printed BUILD SUCCESS")
def exit_codes(cx):
    for code in (0, 1, 2, 42, 126, 127, 255):
        equal(cx.run(f"exit {code}")["exit_code"], code, f"the exit code of `exit {code}`")


@case("a command ended by a signal has that signal, and no exit code")
def signals(cx):
    for name in ("TERM", "KILL", "SEGV", "HUP"):
        result = cx.run(f"kill -{name} $$")
        equal(
            (result["signal"], result["exit_code"]), (f"SIG{name}", None), f"(signal, exit code) of `kill -{name} $$`"
        )
        if cx.profile.promises.get("exit_code_is_error"):
            check(result.refused, f"`kill -{name} $$` is reported as a success")


@case("a child's signal is the shell's exit code 128+n, not the command's signal")
def signal_of_a_child(cx):
    result = cx.run("sh -c 'kill -KILL $$'; exit $?")
    equal(result["exit_code"], 137, "the exit code")
    if result.tells("signal"):
        equal(result["signal"], None, "the signal")


@case("a command that fails is marked as an error; one that does not is not")
def failure_is_marked(cx):
    cx.profile.promise("exit_code_is_error")
    for command in ("exit 2", "false", "ls /nonexistent/folder"):
        check(cx.run(command).refused, f"`{command}` is reported as a success")
    check(not cx.run("echo fine; echo noise >&2").refused, "output on stderr alone is reported as an error")


@case(
    "a command that ran is an answer, however it ended, and the exit code comes first",
    "pydantic-ai gives up after two errors, AutoGen drops what an error says, mcpo answers 500",
)
def ran_is_an_answer(cx):
    cx.profile.promise("exit_code_is_answer")
    for command, code in (("exit 2", 2), ("false", 1), ("ls /nonexistent/folder", 2), ("echo fine", 0)):
        result = cx.run(command)
        equal((result["exit_code"], result.refused), (code, False), f"(exit code, error) of `{command}`")
        check(result.text.startswith(f"exit code {code}"), f"the text begins with {result.text[:30]!r}")
    check(not cx.run("kill -SEGV $$").refused, "a command that ended by a signal of its own is an error")


@case("exit 1 of grep, diff, cmp and test is an answer, not an error")
def exit_1_is_an_answer(cx):
    cx.profile.promise("quiet_exit_1")
    one, two = cx.file("one", "1\n"), cx.file("two", "2\n")
    for command in (f"grep nope {one}", f"diff {one} {two}", f"cmp {one} {two}", "test 1 = 2", "[ 1 = 2 ]"):
        result = cx.run(command)
        equal((result["exit_code"], result.refused), (1, False), f"(exit code, error) of `{command}`")
    check(cx.run("grep x /nonexistent/file").refused, "exit 2 of grep is reported as a success")


@case("a command line that is longer than the kernel takes as an argument runs like any other")
def long_command(cx):
    result = cx.run(f"set -e; echo $0 >/dev/null; : {'x' * 200_000}; cat; echo end; false; echo no", stdin="given\n")
    equal((result["exit_code"], result["stdout"]), (1, "given\nend\n"), "(exit code, stdout)")


@case("the output of a command that fails is all there")
def output_of_a_failure(cx):
    result = cx.run("echo out; echo err >&2; exit 9")
    check("out\n" in result["stdout"], f"stdout is {result['stdout']!r}")
    if result.tells("stderr"):
        check("err\n" in result["stderr"], f"stderr is {result['stderr']!r}")


@case("a folder that is not there is a clear error that names it, and nothing runs")
def cwd_missing(cx):
    trace = cx.folder / "trace"
    result = cx.run(f": > {trace}", cwd=str(cx.folder / "no-such-folder"))
    check(result.refused, "it is reported as a success")
    check("no-such-folder" in result.text, f"the error does not name the folder: {result.text[:200]!r}")
    check(not trace.exists(), "the command ran elsewhere")


@case("a file as the folder is a clear error")
def cwd_is_a_file(cx):
    result = cx.run("echo ran", cwd=str(cx.file("plain-file")))
    check(result.refused, "it is reported as a success")
    check("plain-file" in result.text, f"the error does not name it: {result.text[:200]!r}")


@case("a command that does not exist is an error that names it")
def command_not_found(cx):
    result = cx.run("no-such-command-here --flag")
    told = result.text + (result["stderr"] if result.tells("stderr") else "")
    check("no-such-command-here" in told, f"nobody is told which: {told[:200]!r}")
    if result.tells("exit_code"):
        equal(result["exit_code"], 127, "the exit code")


@case("a program that does not exist, without a shell, is an error that names it")
def program_not_found(cx):
    result = cx.call("run", argv=["no-such-program-here", "--flag"])
    check(result.refused, "it is reported as a success")
    check("no-such-program-here" in result.text, f"the error does not name it: {result.text[:200]!r}")


@case("a file that cannot be executed is exit 126 of the shell")
def not_executable(cx):
    equal(cx.run(f"{cx.file('plain', 'echo x')}")["exit_code"], 126, "the exit code")


@case("arguments of the wrong type are refused with a reason, and the server goes on")
def wrong_types(cx):
    command = cx.profile.operation("run").args["command"]
    for wrong in ({command: 5}, {command: ["echo"]}, {command: None}, {}, []):
        result = cx.call_raw("run", wrong)
        check(result.refused, f"{wrong} is reported as a success")
        check(result.text.strip(), f"{wrong} is refused without a reason")
    equal(cx.run("echo still here")["stdout"], "still here\n", "stdout")


@case("options of the wrong type are refused, not guessed")
def wrong_options(cx):
    for name, value in (("cwd", 7), ("env", 7), ("stdin", {"a": 1}), ("timeout", "soon"), ("timeout", -1)):
        if cx.profile.takes("run", name) and not isinstance(cx.profile.operation("run").args[name], dict):
            args = {cx.profile.operation("run").args["command"]: "true", cx.profile.operation("run").args[name]: value}
            check(cx.call_raw("run", args).refused, f"{name} = {value!r} is taken")
    cx.still_answers()


@case("a command line with NUL, or an empty one, is refused or fails, and the server goes on")
def odd_commands(cx):
    command = cx.profile.operation("run").args["command"]
    check(cx.call_raw("run", {command: "echo a\0b"}).refused, "a NUL in the command is taken")
    cx.call_raw("run", {command: ""})
    cx.still_answers()


@case("time and memory that a command took are told, and plausible")
def usage(cx):
    result = cx.run("sleep 0.4; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
    check(400 <= result["duration_ms"] < 60_000, f"duration_ms is {result['duration_ms']}")
    check(0 < result["cpu_ms"] <= result["duration_ms"], f"cpu_ms is {result['cpu_ms']} of {result['duration_ms']}")
    memory = result["peak_memory_bytes"]
    check(100_000 < memory < 10**9, f"peak_memory_bytes is {memory}")
