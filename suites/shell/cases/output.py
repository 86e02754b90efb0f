"""Output of any size and any bytes: nothing is lost in silence, and the server's memory stays flat."""

import base64
import os
import threading

from driver import processes
from driver.case import Failed, case, check, equal, shorten
from driver.profile import Cannot

from .words import letters, numbered

MIB = 1024 * 1024
GROWTH_MIB = 64


def accounted(result, total, *counted):
    """Shown and omitted bytes make up all of them."""
    shown = sum(counted)
    omitted = result["omitted_bytes"] or 0
    equal(shown + omitted, total, f"shown ({shown}) and omitted ({omitted}) bytes")
    equal(bool(result["truncated"]), omitted > 0, "truncated")


@case("both streams large and interleaved: each byte is shown or counted")
def both_streams_large(cx):
    block = f"{letters(65536, 'Z')}; ({letters(65536, 'Q')}) >&2"
    result = cx.run(f"for i in 1 2 3 4 5 6 7 8; do {block}; done")
    accounted(result, 16 * 65536, result["stdout"].count("Z"), result["stderr"].count("Q"))


@case("stdout and stderr are told apart")
def streams_are_separate(cx):
    result = cx.run("echo one; echo two >&2; echo three")
    equal((result["stdout"], result["stderr"]), ("one\nthree\n", "two\n"), "(stdout, stderr)")


@case(
    "of long output both ends are shown, and the number of omitted bytes is exact",
    "peers cut in silence, or one end only",
)
def head_and_tail(cx):
    result = cx.run(f"printf FIRST; {letters(20 * MIB, 'Z')}; printf LAST")
    shown = result["stdout"]
    check(shown.startswith("FIRSTZ"), f"it begins with {shown[:20]!r}")
    check(shown.endswith("ZLAST"), f"it ends with {shown[-20:]!r}")
    accounted(result, 20 * MIB, shown.count("Z"))


@case("of many lines likewise: the first and the last are shown, and those between are counted")
def head_and_tail_of_lines(cx):
    result, whole = cx.run("seq 1 200000"), numbered(200_000)
    shown = result["stdout"]
    head = len(os.path.commonprefix([shown, whole]))
    tail = len(os.path.commonprefix([shown[::-1], whole[::-1]]))
    check(head > 100 and tail > 100, f"{head} bytes of the beginning and {tail} of the end are shown")
    # A digit or two next to the cut may be the same by chance.
    surplus = head + tail + result["omitted_bytes"] - len(whole)
    check(
        0 <= surplus < 16,
        f"head {head}, tail {tail} and omitted {result['omitted_bytes']} miss {len(whole)} by {surplus}",
    )


@case("a cut never splits a character", "the reference file server: UTF-8 split at chunk edges")
def cut_between_characters(cx):
    # With 0, 1 and 2 bytes before, so that no size of a cut fits by chance.
    for before in ("", "%", "%%"):
        result = cx.run(f"printf '%s' '{before}'; yes € | tr -d '\\n' | head -c 3000000")
        shown = result["stdout"]
        check("\ufffd" not in shown, f"a character was cut in two: {shorten(shown)}")
        accounted(result, 3_000_000 + len(before), shown.count("%"), 3 * shown.count("€"))


@case("what was cut is still there: the whole output can be read afterwards")
def whole_output_is_readable(cx):
    result, whole = cx.run("seq 1 400000"), numbered(400_000)
    check(result["truncated"], "2.7 MB were not truncated")
    check(result["whole"], "the result names no resource with the whole output")
    pages = [read_resource(cx, result["whole"])]
    while cx.profile.resource_page and pages[-1]:
        offset = sum(len(page.encode()) for page in pages)
        pages.append(read_resource(cx, cx.profile.resource_page.format(uri=result["whole"], offset=offset)))
    equal("".join(pages), whole, "the output read from the resource")


def read_resource(cx, uri):
    answer = cx.server.request("resources/read", {"uri": uri}).wait(cx.deadline)
    check("result" in answer, f"resources/read of {uri} is refused: {answer.get('error')}")
    contents = answer["result"]["contents"][0]
    return contents["text"] if "text" in contents else base64.b64decode(contents["blob"]).decode()


@case(
    "a gigabyte of output leaves the server's memory flat",
    "Desktop Commander: an uncaught RangeError at 512 MB ended the server",
    ["own"],
    60,
    heavy=True,
)
def gigabyte_in_flat_memory(cx):
    cx.run("echo warm")
    call, growth = watched(cx, lambda: cx.begin("run", command=f"{letters('1G', 'Z')}; printf LAST"))
    result = call.wait()
    check(growth() < GROWTH_MIB, f"the server grew by {growth():.0f} MiB")
    check(not result.refused, f"it is reported as an error: {result.text[:200]}")
    if result.tells("omitted_bytes"):
        accounted(result, 2**30, result["stdout"].count("Z"))
    check("LAST" in result["stdout"], "the end is not shown")


@case("a job's flood leaves memory flat too, and its size is exact", needs=["own"], limit=60, heavy=True)
def job_flood_in_flat_memory(cx):
    cx.run("echo warm")
    job, growth = watched(cx, lambda: cx.start(f"{letters(300 * MIB, 'Z')}; echo; echo LAST"))
    cx.until(lambda: growth() >= 0 and cx.call("read", id=job)["state"] != "running", "the job ends", 45)
    check(growth() < GROWTH_MIB, f"the server grew by {growth():.0f} MiB")
    reading = cx.call("read", id=job, tail=100)
    check("LAST\n" in reading["output"], f"the tail is {reading['output'][-50:]!r}")
    equal(reading["total_bytes"], 300 * MIB + 6, "total_bytes")


def watched(cx, begin):
    """Begins something and samples the server's memory until it is answered or asked for. In MiB over the start."""
    before = processes.memory_kib(cx.server.pid, cx.server.mark)
    peak, lock, stop = [before], threading.Lock(), threading.Event()

    def sample():
        with lock:
            peak[0] = max(peak[0], processes.memory_kib(cx.server.pid, cx.server.mark))

    def growth():
        stop.set()
        sample()
        return (peak[0] - before) / 1024

    def watch():
        while not stop.wait(0.1):
            sample()

    threading.Thread(target=watch, daemon=True).start()
    try:
        begun = begin()
        if hasattr(begun, "wait"):
            begun.call.done.wait(cx.limit)
        return begun, growth
    except BaseException:
        stop.set()
        raise


@case("a last line without its end stays without")
def no_newline_at_end(cx):
    equal(cx.run("printf 'a\\nb'")["stdout"], "a\nb", "stdout")


@case("no output at all is an empty answer, not an error")
def no_output(cx):
    result = cx.run("true")
    equal(result["stdout"], "", "stdout")
    check(not result.refused, "it is reported as an error")


@case("bytes that are no UTF-8 are shown as U+FFFD, and the rest as it is")
def invalid_utf8(cx):
    equal(cx.run("printf 'a\\377b\\300\\257c\\n'")["stdout"], "a\ufffdb\ufffd\ufffdc\n", "stdout")


@case("a character that arrives in pieces is one character", "Desktop Commander decodes each chunk alone")
def split_characters(cx):
    pieces = ("\\342", "\\202", "\\254|\\360\\237", "\\230\\200")
    command = "; sleep 0.15; ".join(f"printf '{piece}'" for piece in pieces)
    equal(cx.run(command)["stdout"], "€|😀", "stdout")


@case("a character cut off by the end of output is shown as U+FFFD, once")
def unfinished_character(cx):
    equal(cx.run("printf 'a\\342\\202'")["stdout"], "a\ufffd", "stdout")


@case("NUL bytes neither end nor shorten the output")
def nul_bytes(cx):
    equal(cx.run("printf 'a\\000b\\000'")["stdout"], "a\0b\0", "stdout")


@case("carriage returns and escape sequences of a plain command come through as written")
def control_characters(cx):
    if cx.profile.promises.get("shown_plain"):
        raise Cannot("escape sequences are left out")
    equal(cx.run("printf 'a\\r\\nb\\033[1mc\\007'")["stdout"], "a\r\nb\033[1mc\a", "stdout")


@case("escape sequences are left out, and of a line that is written over the last state is shown")
def shown_plain(cx):
    cx.profile.promise("shown_plain")
    equal(cx.run("printf 'a\\r\\nb\\033[1mc\\007'")["stdout"], "a\r\nbc", "stdout")
    equal(cx.run("printf '10%%\\r50%%\\r99%%\\ndone\\n'")["stdout"], "99%\ndone\n", "stdout")


@case(
    "output that looks like a prompt does not end the wait",
    "Desktop Commander: `>\\s*$` and `#\\s*$` end the wait on ordinary output",
)
def prompts_are_output(cx):
    result = cx.run("printf '<p>'; sleep 0.4; printf '# '; sleep 0.4; printf '$ '; sleep 0.4; echo end")
    equal(result["stdout"], "<p># $ end\n", "stdout")


@case("a hundred commands at once: no output is mixed up, and the server answers meanwhile", limit=50)
def hundred_at_once(cx):
    flag, wait = cx.flag()
    calls = [cx.begin("run", command=f"echo out {n}; {wait}; echo end {n}; exit {n % 5}") for n in range(100)]
    cx.still_answers()
    check(not any(call.answered for call in calls), "a command was answered before it could end")
    flag.touch()
    for n, call in enumerate(calls):
        result = call.wait()
        equal(result["stdout"], f"out {n}\nend {n}\n", f"the output of command {n}")
        try:
            equal(result["exit_code"], n % 5, f"the exit code of command {n}")
        except Cannot:
            pass


@case(
    "after a hundred commands nothing is left of them in the server: no zombie, no descriptor", needs=["own"], limit=50
)
def nothing_piles_up(cx):
    def zombies():
        return [pid for pid in processes.descendants(cx.server.pid) if processes.state(pid) == "Z"]

    def descriptors():
        return len(os.listdir(f"/proc/{cx.server.pid}/fd"))

    def twenty_commands():
        for call in [cx.begin("run", command="true & ( sleep 0.2 & ) ; echo x") for _ in range(20)]:
            call.wait()

    twenty_commands()
    before = descriptors()
    for _ in range(5):
        twenty_commands()
    cx.until(lambda: not zombies(), "the zombies are reaped")
    if not cx.wait_until(lambda: descriptors() <= before + 5):
        raise Failed(f"the server had {before} descriptors after 20 commands and has {descriptors()} after 120")
