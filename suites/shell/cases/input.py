"""What a running job is given: text, keys, the end of its input, the size of its terminal."""

from driver.case import case, check, equal


@case("text reaches a job's stdin")
def text(cx):
    job = cx.start('while read line; do echo "got $line"; done')
    cx.call("input", id=job, text="one\n")
    cx.shows(job, "got one")
    cx.call("input", id=job, text="zwei é\n")
    cx.shows(job, "got zwei é")


@case("inputs in quick succession all arrive, in order")
def order_is_kept(cx):
    job = cx.start('while read line; do echo "got $line"; done')
    for n in range(30):
        cx.call("input", id=job, text=f"{n}\n")
    equal(cx.shows(job, "got 29\n"), "".join(f"got {n}\n" for n in range(30)), "the output")


@case("the end of input ends a job that reads to the end")
def end_of_input(cx):
    job = cx.start("cat; echo done; exit 6")
    cx.call("input", id=job, text="hello\n", eof=True)
    equal(cx.ended(job)["exit_code"], 6, "the exit code")
    equal(cx.output(job), "hello\ndone\n", "the output")


@case("the end of input ends a job on a terminal too")
def end_of_input_on_a_terminal(cx):
    job = cx.start("cat; echo done", tty=True)
    cx.call("input", id=job, text="hello\n")
    cx.shows(job, "hello")
    cx.call("input", id=job, eof=True)
    cx.shows(job, "done")
    equal(cx.ended(job)["exit_code"], 0, "the exit code")


@case("Ctrl-C on a terminal reaches the foreground command as SIGINT")
def ctrl_c(cx):
    job = cx.start("trap 'echo got-int; exit 5' INT; echo ready; while :; do sleep 0.1; done", tty=True)
    cx.shows(job, "ready")
    cx.call("input", id=job, keys=["ctrl-c"])
    equal(cx.ended(job)["exit_code"], 5, "the exit code")
    check("got-int" in cx.output(job), "the handler did not run")


@case("Ctrl-C is SIGINT without a terminal as well, or a clear error")
def ctrl_c_without_a_terminal(cx):
    job = cx.start("trap 'echo got-int; exit 5' INT; echo ready; while :; do sleep 0.1; done")
    cx.shows(job, "ready")
    result = cx.call("input", id=job, keys=["ctrl-c"])
    if not result.refused:
        equal(cx.ended(job)["exit_code"], 5, "the exit code")


@case("keys arrive as a terminal sends them")
def keys(cx):
    job = cx.start("stty -icanon -echo; echo ready; cat -v", tty=True)
    cx.shows(job, "ready")
    cx.call("input", id=job, keys=["up", "escape", "tab"])
    cx.call("input", id=job, text="end\n")
    shown = cx.shows(job, "end")
    check("^[[A^[" in shown or "^[OA^[" in shown, f"the keys arrived as {shown!r}")


@case("Enter ends a line")
def enter(cx):
    job = cx.start('read line; echo "[$line]"', tty=True)
    cx.call("input", id=job, text="typed", keys=["enter"])
    cx.shows(job, "[typed]")


@case("a key that is none is a clear error that names it")
def unknown_key(cx):
    job = cx.start("cat", tty=True)
    result = cx.call("input", id=job, keys=["no-such-key"])
    check(result.refused, "it is taken")
    check("no-such-key" in result.text, f"the error does not name it: {result.text[:200]!r}")


@case("the size of the terminal can be changed, and the job sees it")
def terminal_size(cx):
    job = cx.start("while read x; do stty size; done", tty=True)
    cx.call("input", id=job, rows=33, cols=101)
    cx.call("input", id=job, text="go\n")
    cx.shows(job, "33 101")


@case("a question and its answer: an interpreter on a terminal", "DesktopCommander#552: REPLs and prompts hang")
def conversation(cx):
    job = cx.start("printf 'name? '; read name; echo \"hello $name\"", tty=True)
    cx.shows(job, "name? ")
    cx.call("input", id=job, text="ann\n")
    cx.shows(job, "hello ann")
    equal(cx.ended(job)["exit_code"], 0, "the exit code")


@case("input can come back with what the job wrote since, and nothing older", "two calls for each line of a REPL otherwise")
def reaction(cx):
    job = cx.start("printf '> '; while read line; do echo \"got $line\"; printf '> '; done")
    cx.shows(job, "> ")
    for word in ("one", "two"):
        sent = cx.call("input", id=job, text=f"{word}\n", wait_for="> $", wait=20)
        equal(sent["output"], f"got {word}\n> ", "the reaction")


@case("a job that reads its terminal is said to wait for input, and one that sleeps is not")
def waits_for_input(cx):
    job = cx.start("printf 'name? '; read name; echo over; sleep 300", tty=True)
    cx.until(lambda: cx.call("read", id=job)["waits"] == "yes", "it is said to wait")
    cx.call("input", id=job, text="ann\n")
    cx.shows(job, "over")
    equal(cx.call("read", id=job)["waits"], None, "what is said of a job that sleeps")


@case("more input than anybody reads does not hang the server", needs=["sees"])
def input_nobody_reads(cx):
    job = cx.start("sleep 300")
    result = cx.call("input", id=job, text="x" * 1_000_000)
    check(result.elapsed < 20, f"it took {result.elapsed:.1f} s")
    cx.still_answers()


@case("input for a job that has ended is a clear error")
def after_the_end(cx):
    job = cx.start("exit 0")
    cx.ended(job)
    result = cx.call("input", id=job, text="hello\n")
    check(result.refused and result.text.strip(), f"it is reported as a success: {result.text[:200]}")
