"""Jobs: started, listed, read by pages or by waiting, and remembered after their end."""

import re
import time

from driver import processes
from driver.case import case, check, equal

from .words import numbered


@case("a job is started at once, and the list shows it running")
def start_and_list(cx):
    flag, wait = cx.flag()
    result = cx.call("start", command=f"echo up; {wait}")
    check(result.elapsed < 10, f"the start took {result.elapsed:.1f} s")
    row = cx.listed(result["id"])
    if "state" in row:
        equal(row["state"], "running", "its state")
    if "pid" in row:
        equal(row["pid"], result["pid"], "its pid")
        check(processes.exists(row["pid"]), f"there is no process {row['pid']}")
    flag.touch()
    cx.ended(result["id"])


@case(
    "a job's id is neither a pid nor the next small number",
    "Desktop Commander: the id is the pid, so a recycled pid is another job",
)
def ids_are_not_guessable(cx):
    results = [cx.call("start", command="sleep 300") for _ in range(3)]
    ids = [str(result["id"]) for result in results]
    check(len(set(ids)) == 3, f"ids repeat: {ids}")
    for id, result in zip(ids, results):
        check(id != str(result["pid"]), f"job {id} is named by its pid")
        check(not (id.isdecimal() and int(id) < 10**9), f"job {id} is a small number")
    rests = {re.sub(r"\d+", "#", id) for id in ids}
    numbers = [[int(n) for n in re.findall(r"\d+", id)[:8]] for id in ids]
    counted = len(rests) == 1 and all(abs(a - b) < 100 for x, y in zip(numbers, numbers[1:]) for a, b in zip(x, y))
    check(not counted, f"ids are counted: {ids}")


@case("folder and variables of a job are the ones asked for")
def cwd_and_environment(cx):
    job = cx.start('printf "%s|%s" "$PWD" "$SUITE_A"', cwd=str(cx.folder), env={"SUITE_A": "a b"})
    cx.ended(job)
    equal(cx.output(job), f"{cx.folder}|a b", "the output")


@case("pages of a job's output, one after the other, are the whole of it")
def read_by_offset(cx):
    job, whole = cx.start("seq 1 40000"), numbered(40_000)
    cx.ended(job)
    pages, offset = [], 0
    while True:
        page = cx.call("read", id=job, offset=offset, limit=7001)
        equal(page["offset"], offset, "the offset of the page")
        pages.append(page["output"] or "")
        check(len(pages[-1].encode()) <= 7001, f"a page of 7001 bytes has {len(pages[-1].encode())}")
        if not page["next_offset"] or page["next_offset"] == offset:
            break
        equal(page["next_offset"], offset + len(pages[-1].encode()), "next_offset")
        offset = page["next_offset"]
    equal("".join(pages), whole, "all pages together")
    equal(cx.call("read", id=job, offset=0)["total_bytes"], len(whole), "total_bytes")


@case("a page ends between characters, not within one", "the reference file server: UTF-8 split at chunk edges")
def pages_keep_characters(cx):
    job = cx.start("i=0; while [ $i -lt 500 ]; do printf '€😀é'; i=$((i+1)); done")
    cx.ended(job)
    pages, offset = [], 0
    while True:
        page = cx.call("read", id=job, offset=offset, limit=100)
        pages.append(page["output"] or "")
        if page["next_offset"] in (None, offset):
            break
        offset = page["next_offset"]
    equal("".join(pages), "€😀é" * 500, "all pages together")


@case(
    "what a job writes later is read from where the last reading ended",
    "DesktopCommander#195: output is read twice or never",
)
def read_what_is_new(cx):
    flag, wait = cx.flag()
    job = cx.start(f"echo one; {wait}; echo two")
    cx.until(lambda: cx.call("read", id=job, offset=0)["output"] == "one\n", "the first line shows")
    flag.touch()
    cx.ended(job)
    equal(cx.call("read", id=job, offset=4)["output"], "two\n", "what is new")


@case("an offset behind the end is empty or an error, not something else")
def read_past_the_end(cx):
    job = cx.start("echo one")
    cx.ended(job)
    result = cx.call("read", id=job, offset=1_000_000)
    check(result.refused or not result["output"], f"it gives {result.raw}")


@case("the tail is the end of the output")
def read_the_tail(cx):
    job = cx.start("seq 1 20000")
    cx.ended(job)
    equal(cx.call("read", id=job, tail=18)["output"], "19998\n19999\n20000\n", "the tail")


@case("one stream can be read without the other")
def read_one_stream(cx):
    job = cx.start("echo one; echo two >&2; echo three")
    cx.ended(job)
    for stream, wanted in (("stdout", "one\nthree\n"), ("stderr", "two\n")):
        equal(cx.call("read", id=job, stream=stream, offset=0)["output"], wanted, stream)
    both = cx.call("read", id=job, stream="both", offset=0)["output"]
    equal(sorted(both.split()), ["one", "three", "two"], "the lines of both")


@case(
    "a wait for a text ends when the text comes, while the job runs on",
    "Desktop Commander: polling, or guesses at prompts",
)
def wait_for_text(cx):
    flag, wait = cx.flag()
    job = cx.start(f"echo starting; {wait}; echo listening on port 4711; sleep 300")
    reading = cx.begin("read", id=job, offset=0, wait_for=r"port \d+", wait=20)
    cx.still_answers()
    flag.touch()
    result = reading.wait()
    check(result["matched"], f"it does not match: {result.raw}")
    check("port 4711" in result["output"], f"the output is {result['output']!r}")
    equal(result["state"], "running", "the state")


@case("a text that is there already is found at once")
def wait_for_text_that_is_there(cx):
    job = cx.start("echo ready; sleep 300")
    cx.shows(job, "ready")
    result = cx.call("read", id=job, offset=0, wait_for="^ready", wait=20)
    check(result.elapsed < 10, f"it took {result.elapsed:.1f} s")
    check(result["matched"], "it does not match")


@case("a wait that is in vain ends in its time, as an answer")
def wait_in_vain(cx):
    job = cx.start("echo one; sleep 300")
    result = cx.call("read", id=job, offset=0, wait_for="never", wait=1)
    check(0.5 < result.elapsed < 15, f"it took {result.elapsed:.1f} s")
    check(not result.refused, f"it is an error: {result.text[:200]}")
    check(not result["matched"], "it matched")
    equal(result["state"], "running", "the state")


@case("a wait for a text ends when the job does")
def wait_for_text_until_the_end(cx):
    job = cx.start("echo one; exit 3")
    result = cx.call("read", id=job, offset=0, wait_for="never", wait=20)
    check(result.elapsed < 15, f"it took {result.elapsed:.1f} s")
    check(not result["matched"], "it matched")
    equal((result["state"], result["exit_code"]), ("exited", 3), "(state, exit code)")


@case("a wait does not end at what was read before, and says when its time is over")
def wait_for_what_is_new(cx):
    job = cx.start("echo ready; sleep 300")
    equal(cx.call("read", id=job, wait_for="ready", wait=20)["matched"], "ready", "what matched")
    again = cx.call("read", id=job, wait_for="ready", wait=1)
    equal((again["matched"], again["waited"]), (None, "expired"), "(what matched, how the wait ended)")


@case("a pattern that is none is a clear error")
def wait_for_nonsense(cx):
    job = cx.start("sleep 300")
    result = cx.call("read", id=job, wait_for="(", wait=1)
    check(result.refused and result.text.strip(), f"it is taken: {result.raw}")


@case("a wait for the end gives the exit code")
def wait_for_the_end(cx):
    flag, wait = cx.flag()
    job = cx.start(f"{wait}; echo over; exit 4")
    reading = cx.begin("read", id=job, offset=0, wait_exit=True, wait=20)
    cx.still_answers()
    check(not reading.answered, "it was answered before the end")
    flag.touch()
    result = reading.wait()
    equal(
        (result["state"], result["exit_code"], result["output"]), ("exited", 4, "over\n"), "(state, exit code, output)"
    )


@case(
    "output and exit code are there after the end, as often as asked for",
    "DesktopCommander#101: «process not found» after it finished",
)
def remembered_after_the_end(cx):
    job = cx.start("echo kept; exit 5")
    cx.ended(job)
    whole = {"offset": 0} if cx.profile.takes("read", "offset") else {}
    for time_ in ("first", "second"):
        reading = cx.call("read", id=job, **whole)
        equal((reading["exit_code"], reading["output"].strip()), (5, "kept"), f"(exit code, output) the {time_} time")
    if "state" in cx.profile.operation("list").rows:
        row = cx.listed(job)
        equal((row["state"], row["exit_code"]), ("exited", 5), "(state, exit code) in the list")


@case("a job that a signal ended says which")
def ended_by_a_signal(cx):
    job = cx.start("kill -SEGV $$")
    reading = cx.ended(job)
    equal((reading["signal"], reading["exit_code"]), ("SIGSEGV", None), "(signal, exit code)")


@case("a job that ends but leaves a child says so", "claude-code#93126: lingering work is lost", needs=["sees"])
def left_running(cx):
    cx.profile.needs_column("left_running")
    job = cx.start("sleep 300 & setsid sleep 301 & echo gone")
    cx.ended(job)
    sleepers = [pid for pid in cx.alive() if processes.arguments(pid)[:1] == ["sleep"]]
    equal(len(sleepers), 2, "the number of sleepers")
    equal(sorted(cx.listed(job)["left_running"] or []), sorted(sleepers), "left_running")
    equal(cx.call("stop", id=job).refused, False, "the stop of what is left is an error:")
    cx.vanishes("the stop")


@case("twenty jobs at once, each with its own output and exit code")
def many(cx):
    jobs = [cx.start(f"echo job {n}; exit {n}") for n in range(20)]
    for n, job in enumerate(jobs):
        equal(cx.ended(job)["exit_code"], n, f"the exit code of job {n}")
        if cx.profile.takes("read", "offset"):
            equal(cx.output(job), f"job {n}\n", f"the output of job {n}")


@case("a log file that is asked for has the whole output")
def log_file(cx):
    path = cx.folder / "job.log"
    result = cx.call("start", command="echo one; echo two >&2; echo three", log=str(path))
    cx.ended(result["id"])
    equal(sorted(path.read_text().split()), ["one", "three", "two"], "the lines in the log")


@case("an id that never was is a clear error that names it, for every operation")
def unknown_id(cx):
    wrong = "31999" if cx.profile.operation("read").args["id"] != "id" else "no-such-job"
    for operation, args in (("read", {}), ("stop", {}), ("input", {"text": "x"})):
        if operation in cx.profile.operations:
            result = cx.call(operation, id=wrong, **args)
            check(result.refused, f"`{operation}` reports a success: {result.text[:100]}")
            check(wrong in result.text, f"`{operation}` does not name it: {result.text[:200]!r}")
    cx.still_answers()


@case("a started job does not keep a reading of it from being answered in time")
def reading_does_not_block(cx):
    job = cx.start("sleep 300")
    began = time.monotonic()
    for _ in range(20):
        cx.call("read", id=job)
    check(time.monotonic() - began < 15, "twenty readings of a silent job took 15 s")
