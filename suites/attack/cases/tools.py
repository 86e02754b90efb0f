"""What tools hold for their callers is part of the budget, however large the files, folders and pages are."""

import os
import struct
import threading
import zlib

from harness.case import case, check
from harness.load import Load
from harness.website import Website
from harness.world import token_of

from .memory import judge, serve

CALLERS = ("ann", "bob", "eve")
# More than the server needs within its budget, so that only what is not counted meets it.
NARROW = ("prlimit", "--as=300000000")


def serve_callers(cx, *options):
    return serve(cx, *options, tokens=CALLERS, wrap=NARROW)


def ask(caller, tool, arguments):
    """Calls a tool, and calls it again where the server has no memory just now: a slow machine is no reason to fail."""
    for _ in range(20):
        text = caller.call(tool, **arguments).text
        if "try again later" not in text:
            break
    return text


def together(server, tool, *choices, times=8):
    """Calls a tool so many times at once, from two callers. The answers, or what went wrong instead."""
    answers = []

    def call(number):
        caller = server.caller(token_of(CALLERS[number % 2]))
        try:
            answers.append(ask(caller, tool, choices[number % len(choices)]))
        except Exception as error:  # Whatever a server does that has no room left.
            answers.append(f"no answer: {error!r}")

    threads = [threading.Thread(target=call, args=(number,)) for number in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def flood(cx, server, tool, *choices, seconds=6, threads=60):
    """The same for a while, from sixty threads."""
    load = cx.keep(Load(seconds))
    for number in range(threads):
        caller, arguments = server.caller(token_of(CALLERS[number % 2]), seconds=30), choices[number % len(choices)]
        load.add(tool, lambda caller=caller, arguments=arguments: word_of(caller.call(tool, **arguments)))
    load.wait()
    load.close()
    cx.note(load.summary())


def word_of(answer):
    return "refused" if answer.refused else "done"


def write_lines(path, line, size):
    block = line * (1_000_000 // len(line))
    with open(path, "wb") as file:
        for _ in range(size // len(block)):
            file.write(block)


@case("D5", "a search reads no line of any length into memory", limit=120)
def searches_of_an_endless_line_stay_in_the_budget(cx):
    server = serve_callers(cx)
    write_lines(cx.root / "line", b"a", 100_000_000)
    (cx.root / "short").write_text("aab\n")
    for answer in together(server, "search_files", {"pattern": "a+b", "path": str(cx.root)}):
        check("line" in answer and "too l" in answer, f"nobody is told that a file was left out: {answer[:200]}")
        check("aab" in answer, f"the other file was not searched: {answer[:200]}")
    judge(cx, server, "8 searches of a line of 100 MB")


@case("D5", "a search over several lines reads no file of any size into memory", limit=120)
def multiline_searches_stay_in_the_budget(cx):
    server = serve_callers(cx)
    for name in ("a", "b"):
        write_lines(cx.root / name, b"aaaa bbbb\n", 60_000_000)
    arguments = {"pattern": "(?s)aaaa.*c", "multiline": True, "path": str(cx.root)}
    for answer in together(server, "search_files", arguments):
        check("too large" in answer, f"nobody is told that a file was left out: {answer[:200]}")
    judge(cx, server, "8 searches over several lines in files of 60 MB")


@case("D5", "a pattern does not become any number of megabytes", limit=120)
def large_patterns_stay_in_the_budget(cx):
    server = serve_callers(cx)
    (cx.root / "file").write_text("some words\n" * 1000)
    patterns = ["|".join(rf"(\pL{{{number}}}x)" for number in range(1, 60)), r"(?i)(\w{1,100}\pL){10}", r"\w{400}"]
    patterns += [r"\w" * 2000, r"(?i)\pL" * 800, "a|" * 2000, "(((a{0,50}){0,50}){0,50})", "(((a{0,32}){0,32}){0,32})"]
    patterns += ["[ab]*a[ab]{14}", r"\b\w{8}-\w{4}-\w{4}-\w{4}-\w{12}\b"]
    choices = [{"pattern": pattern, "path": str(cx.root)} for pattern in patterns]
    answers = together(server, "search_files", *choices, times=20)
    check(not any("no answer" in answer for answer in answers), f"one was not answered: {answers}")
    judge(cx, server, "20 searches for large patterns")


@case("D5", "what is waited for or searched in the output of jobs is a pattern, too", limit=120)
def patterns_for_jobs_stay_in_the_budget(cx):
    server = serve_callers(cx)
    jobs = [server.caller(token_of(name)).call("shell_bg", command="echo a; sleep 300").data["id"] for name in CALLERS[:2]]
    patterns = [r"\w" * 2000, r"\w" * 200_000, "a|" * 3_000_000, r"(\pL{1,9}){30}"]
    for member in ("wait_for", "search"):
        choices = [{"id": job, member: pattern, "wait": 1} for pattern in patterns for job in jobs]
        answers = together(server, "job_output", *choices, times=16)
        check(not any("no answer" in answer for answer in answers), f"one was not answered: {answers}")
    judge(cx, server, "patterns for jobs")


@case("D5", "a name that is not known is neither repeated nor compared at any length", limit=60)
def long_names_of_tools_stay_in_the_budget(cx):
    server = serve_callers(cx)
    for name in ("shell" * 1_500_000, "a" * 7_500_000):
        answer = server.session(token_of(CALLERS[0])).call(name)
        check("at most 8192 bytes" in answer.text, f"{answer.text[:200]}")
    judge(cx, server, "names of megabytes")


@case("D41", "a long command, and what is too long for one, must not be copied without being counted", limit=120)
def long_commands_stay_in_the_budget(cx):
    server = serve_callers(cx)
    long = "a" * 7_900_000
    lines = [{"command": f"#{long}"}, {"command": "#" + "\n" * 3_900_000}, {"command": f"nosuch{long}"}]
    argv = ["true", *60 * ["b" * 120_000]]
    refused = [{"command": "true", "env": {"A": long}}, {"command": "true", "env": [f"A={long}"]}, {"argv": argv}]
    for choices in (lines, refused):
        answers = together(server, "shell", *choices, times=9)
        cx.note(" | ".join(sorted({answer[:40] for answer in answers})))
    together(server, "shell_bg", {"command": f"#{long}"}, times=6)
    judge(cx, server, "commands of 8 MB")


@case("D42", "a page must not become three times as long, uncounted, when it is decoded", form="long", limit=120)
def pages_that_grow_stay_in_the_budget(cx):
    heads = {b"windows-1252": b"\x80", b"utf-8": b"\xff", b"iso-8859-1": b"\xa0"}
    pages = [b"<meta charset=" + name + b"><p>words</p>" + sign * 8_000_000 for name, sign in heads.items()]
    pages += [b"<p>words</p>" + sign * 8_000_000 for sign in (b">", b"&")]
    site = cx.keep(Website(pages=pages))
    server = serve_callers(cx, "--fetch-allow", f"127.0.0.1:{site.port}")
    urls = [f"http://127.0.0.1:{site.port}/page/{number}" for number in range(len(pages))]
    for url in urls:
        for style in ("plain", "html"):
            text = ask(server.caller(token_of("eve")), "fetch", {"url": url, "timeout_s": 60, "render": style})
            check("words" in text, f"nothing is left of the page: {text[:200]}")
    judge(cx, server, "pages of 8 MB that grow")


def write_rules(cx):
    """A folder with one ignore file of 300,000 rules, and one with five nested ones of 200,000."""
    wide, deep = cx.root / "wide", cx.root / "deep"
    wide.mkdir()
    (wide / "f").write_text("needle")
    (wide / ".gitignore").write_text("".join(f"a{n}*b{{c,d}}[e-z]**/x{n}\n" for n in range(300_000)))
    (wide / ".ignore").write_text("".join(f"a{n}*.txt\n" for n in range(300_000)))
    folder = deep
    rules = "".join(f"*{n}*q*\n" for n in range(200_000))
    for name in ("", "a", "b", "c", "d"):
        folder = folder / name
        folder.mkdir()
        (folder / "f").write_text("needle")
        (folder / ".ignore").write_text(rules)
    return wide, deep


@case("D5", "files that say what to leave out are not read without end", limit=120)
def ignore_files_stay_in_the_budget(cx):
    server = serve_callers(cx)
    wide, deep = write_rules(cx)
    (wide / ".git").mkdir()
    for folder, found in ((wide, 1), (deep, 5)):
        for answer in together(server, "search_files", {"pattern": "needle", "path": str(folder)}):
            check(f"{found} match" in answer, f"the search says: {answer[:200]}")
            check("rules" in answer, f"nobody is told that rules were left out: {answer[:300]}")
        for answer in together(server, "list_dir", {"path": str(folder), "depth": 6, "ignore": True}):
            check("rules" in answer, f"nobody is told that rules were left out: {answer[:300]}")
    judge(cx, server, "searches and listings below hundreds of thousands of rules")


@case("D5", "folders with any number of names must not add up", form="long", alone=True, limit=240)
def folders_with_many_names_stay_in_the_budget(cx):
    server = serve_callers(cx)
    for folder in ("files", "folders"):
        (cx.root / folder).mkdir()
        for number in range(100_000):
            path = cx.root / folder / f"{number:06}{'x' * 200}"
            path.mkdir() if folder == "folders" else path.touch()
    search = {"pattern": "needle", "mode": "files", "max_seconds": 5}
    choices = [search | {"path": str(cx.root / folder)} for folder in ("files", "folders")]
    flood(cx, server, "search_files", *choices)
    flood(cx, server, "list_dir", {"path": str(cx.root), "depth": 16, "limit": 100_000, "sort": "size"})
    judge(cx, server, "searches in folders with 100,000 long names")


def write_image(path, size):
    """A picture in form: chunks of noise between its header and its end."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 1000, 1000, 8, 2, 0, 0, 0)
    pixels = chunk(b"IDAT", os.urandom(size))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels + chunk(b"IEND", b""))


@case("D5", "pictures that are read at once must not add up", limit=120)
def pictures_stay_in_the_budget(cx):
    server = serve_callers(cx)
    write_image(cx.root / "image.png", 3_600_000)
    path = str(cx.root / "image.png")
    flood(cx, server, "read_file", {"path": path}, {"paths": [path, path]}, seconds=4)
    answer = server.caller(token_of("eve")).call("read_file", path=path)
    check(not answer.refused, f"afterwards a picture cannot be read: {answer.text[:200]}")
    judge(cx, server, "pictures of 3.6 MB for 60 callers")


@case("D5", "edits of large files must not add up", limit=120)
def edits_of_large_files_stay_in_the_budget(cx):
    server = serve_callers(cx)
    choices = []
    for number, (line, size) in enumerate([(b"abc\n", 8_000_000), (b"\n", 3_000_000), (b"ab\r\n", 6_000_000)] * 4):
        path = cx.root / f"file{number}"
        write_lines(path, line, size)
        with open(path, "ab") as file:
            file.write(b"needle")
        hit = {"path": str(path), "old_string": "needle", "new_string": "pin", "dry_run": True}
        miss = hit | {"old_string": "abd" * 3000, "fuzzy": True}
        twice = {"dry_run": True, "edits": [hit | {"new_string": new} for new in ("a needle\n", "b")]}
        for edit in twice["edits"]:
            del edit["dry_run"]
        choices += [hit, miss, twice]
    write_lines(cx.root / "large", b"words\n", 30_000_000)
    choices += [{"path": str(cx.root / "large"), "old_string": "needle", "new_string": "pin"}]
    flood(cx, server, "edit_file", *choices, seconds=5)
    judge(cx, server, "edits of twelve files of 3 to 8 MB for 60 callers")
    answer = server.caller(token_of("eve")).call("edit_file", **choices[0])
    check(not answer.refused, f"afterwards a file cannot be edited: {answer.text[:200]}")


@case("D39", "what an edit makes of a short file must not add up", limit=120)
def edits_that_grow_stay_in_the_budget(cx):
    server = serve_callers(cx)
    (cx.root / "places").write_text("a\n" * 99_999)
    (cx.root / "line").write_text("line\n")
    blanks = " " * 400
    cell = '{"cell_type": "code", "metadata": {}, "outputs": [], "source": [\n' + blanks + '"x\\n",\n' + blanks + '"y"]}'
    notebook = '{"cells": [' + cell + '], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    (cx.root / "book.ipynb").write_text(notebook)
    places = {"path": "places", "old_string": "a", "new_string": "b" * 330, "replace_all": True}
    lines = {"path": "line", "old_string": "line", "new_string": "\n" * 3_900_000}
    missed = {"path": "line", "old_string": "\n" * 3_900_000, "new_string": "x"}
    cells = {"path": "book.ipynb", "old_string": "x\ny", "new_string": "z\n" * 300_000}
    choices = [edit | {"path": str(cx.root / edit["path"]), "dry_run": True} for edit in (places, lines, missed, cells)]
    answers = together(server, "edit_file", *choices)
    check(not any("no answer" in answer for answer in answers), f"one was not answered: {answers}")
    judge(cx, server, "8 edits that make much of little")


@case("D5", "a tag of a page does not become any number of megabytes", limit=120)
def pages_with_endless_tags_stay_in_the_budget(cx):
    attributes = b"<a " + b" ".join(b"x%d=1" % number for number in range(700_000)) + b">x</a>"
    quoted = b"<a x='" + b"&amp;" * 1_500_000 + b"'>x</a>"
    named = b"<" + b"a" * 8_000_000 + b">x"
    comment, doctype = b"<!--" + b"-!" * 4_000_000, b"<!DOCTYPE " + b"a" * 8_000_000
    pages = [attributes, quoted, named, comment, doctype, b"<b>" * 2_000_000, b"<table>" * 1_100_000]
    pages += [b"<table>" + b"<tr><td>x" * 800_000, b"<p>" + b"&amp;" * 1_600_000, b"<pre>" + b"x" * 8_000_000]
    site = cx.keep(Website(pages=[b"<html><p>words</p>" + page for page in pages]))
    server = serve_callers(cx, "--fetch-allow", f"127.0.0.1:{site.port}")
    urls = [f"http://127.0.0.1:{site.port}/page/{number}" for number in range(len(pages))]
    choices = [{"url": url, "timeout_s": 20, "render": style} for url in urls for style in ("plain", "markdown", "html")]
    flood(cx, server, "fetch", *choices, seconds=8)
    answer = server.caller(token_of("eve")).call("fetch", url=urls[0], timeout_s=20)
    check("words" in answer.text, f"nothing is left of the page: {answer.text[:200]}")
    judge(cx, server, "pages with 700,000 attributes in one tag")
