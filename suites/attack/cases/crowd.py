"""Many at once: connections, sessions and questions of one caller must not shut out the others."""

import contextlib
import selectors
import threading
import time

from driver import wire
from harness import http, machine
from harness.case import case, check
from harness.limits import room_for_files
from harness.load import Stopwatch
from harness.world import Sockets, token_of

ASKS = {"elicitation": {}}


@case("D4", "one caller's questions that nobody answers must not refuse every tool to everybody", limit=120)
def unanswered_questions_lock_nobody_out(cx):
    server = cx.serve("--ask", "true", tokens=("ann", "bob"))
    ann = server.session(token_of("ann"))
    asked, refused = ask_many(server, token_of("bob"), 4300)
    cx.note(f"{asked} questions wait, {refused} calls refused, {machine.mib(machine.resident_bytes(server.pid))}")
    check(asked > 0, "no question was asked")
    (cx.root / "file").write_text("hers")
    for client in (ann, server.session(token_of("ann")), server.caller(token_of("ann"))):
        answer = client.call("read_file", path=str(cx.root / "file"))
        check("hers" in answer.text, f"with {asked} questions of another she is told: {answer.text[:120]}")
    other = server.session(token_of("ann")).call("shell", command="echo mine; false || :")
    check(not other.refused or "ask" in other.text, f"she may run nothing: {other.text[:120]}")


def ask_many(server, token, count):
    """Calls a tool that asks, and goes away without an answer. How many wait, and how many were refused."""
    session = server.session(token, ASKS)
    asked = refused = 0
    for number in range(count):
        if number % 200 == 199:
            session = server.session(token, ASKS)
        with session.call_unread("shell", command="true") as stream:
            seen = b""
            # Either the question, or `error` or `isError`.
            while b"elicitation/create" not in seen and b"rror" not in seen and (part := stream.recv(1 << 14)):
                seen += part
        if b"elicitation/create" in seen:
            asked += 1
        else:
            refused += 1
            if refused >= 5:
                break
    return asked, refused


@case("D11", "idle strangers must not use up the files that a client's tools need")
def idle_connections_leave_files_for_the_tools(cx):
    room_for_files(1400)
    server = cx.serve(wrap=["prlimit", "--nofile=1024:1024"])
    (cx.root / "file").write_text("here")
    caller = server.caller()
    caller.call("read_file", path=str(cx.root / "file"))
    crowd = cx.keep(Sockets())
    for _ in range(1100):
        with contextlib.suppress(OSError):
            crowd.add(http.connect(server.port, seconds=2))
    for client, who in ((caller, "the client that was there"), (server.caller(seconds=10), "the next one")):
        for tool, words in (("read_file", {"path": str(cx.root / "file")}), ("shell", {"command": "echo here"})):
            answer = client.call(tool, **words)
            check("here" in answer.text, f"{who} gets from {tool}: {answer.text[:150]}")
    lines = server.log().count("\n")
    cx.note(f"{len(crowd.sockets)} connections, {lines} lines in the log")
    check(lines < 50, f"the log has {lines} lines")


def crowd_of(cx, server, count, first=b""):
    """Connections of strangers that say nothing, or only a little."""
    crowd = cx.keep(Sockets())
    for _ in range(count):
        with contextlib.suppress(OSError):
            connection = crowd.add(http.connect(server.port, seconds=2))
            if first:
                connection.sendall(first)
    return crowd


@case("D17", "connections that say nothing, or a byte now and then, must make room for the next caller")
def idle_connections_make_room(cx):
    room_for_files(1800)
    server = cx.serve(tokens=("ann",))
    idle, dribbling = crowd_of(cx, server, 750), crowd_of(cx, server, 750, b"P")
    began = time.monotonic()
    try:
        answer = server.caller(token_of("ann"), seconds=5).call("jobs")
    except OSError as error:
        check(False, f"the next caller gets nothing: {error}")
    count = len(idle.sockets) + len(dribbling.sockets)
    cx.note(f"beside {count} connections after {(time.monotonic() - began) * 1000:.0f} ms")
    check(answer.status == 200, f"the next caller gets {answer.status}: {answer.text[:100]}")


class Flood:
    """Connections of one caller with requests that wait on each of them. A thread of its own writes and reads."""

    def __init__(self, server, token, connections, requests_on_each):
        caller = server.caller(token)
        # As many wrong members as fit into a message that is read on the shared thread.
        arguments = {"path": "a", "edits": [{"old_str": "", "new_str": ""}] * 1000}
        params = {"name": "edit_file", "arguments": arguments}
        body = wire.encode(wire.request(1, "tools/call", params, wire.MODERN))
        head = "".join(f"{name}: {value}\r\n" for name, value in caller.headers("tools/call", params).items())
        request = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        self.port, self.text, self.count = server.port, request * requests_on_each, connections
        self.total = connections * requests_on_each
        self.answered, self.over, self.begun = 0, threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        waiting = selectors.DefaultSelector()
        for _ in range(self.count):
            connection = http.connect(self.port, seconds=30)
            connection.setblocking(False)
            waiting.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, [memoryview(self.text)])
        while not self.over.is_set() and waiting.get_map():
            for key, events in waiting.select(0.1):
                with contextlib.suppress(BlockingIOError):
                    try:
                        self.step(waiting, key, events)
                    except ConnectionError:
                        waiting.unregister(key.fileobj)
                        key.fileobj.close()
        for key in list((waiting.get_map() or {}).values()):
            key.fileobj.close()

    def step(self, waiting, key, events):
        if events & selectors.EVENT_WRITE:
            key.data[0] = key.data[0][key.fileobj.send(key.data[0]) :]
            if not key.data[0]:
                waiting.modify(key.fileobj, selectors.EVENT_READ, key.data)
        if events & selectors.EVENT_READ:
            part = key.fileobj.recv(1 << 16)
            if not part:
                raise ConnectionResetError
            self.answered += part.count(b"HTTP/1.1")
            self.begun.set()

    def stop(self):
        self.over.set()
        self.thread.join()


@case("D66", "requests on many connections of one caller must not hold up a new caller", alone=True, limit=120)
def calls_on_many_connections_hold_up_no_new_caller(cx):
    room_for_files(1400)
    server = cx.serve(tokens=("ann", "bob"))
    flood = Flood(server, token_of("ann"), 400, 20)
    try:
        check(flood.begun.wait(60), "nothing was answered")
        before = flood.answered
        for _ in range(3):
            answer = server.caller(token_of("bob")).call("jobs")
            check(not answer.refused, f"a new caller is told: {answer.text[:100]}")
        meanwhile = flood.answered - before
    finally:
        flood.stop()
    cx.note(f"{meanwhile} of {flood.total} requests were answered while another caller called three times")
    check(meanwhile < flood.total / 8, f"{meanwhile} of {flood.total} requests were answered first")


@case("D17", "1,500 idle or dribbling connections hold up the next caller by at most 100 ms", form="long", alone=True)
def a_crowd_holds_nobody_up(cx):
    room_for_files(1800)
    server = cx.serve(tokens=("ann",))

    def next_caller():
        client = server.caller(token_of("ann"), seconds=10)
        answer = client.call("list_dir", path=str(cx.root))
        client.close()
        check(not answer.refused, f"refused: {answer.text[:100]}")

    quiet, crowded = Stopwatch(), Stopwatch()
    for _ in range(20):
        quiet.measure(next_caller)
    crowd_of(cx, server, 750)
    crowd_of(cx, server, 750, b"POST /mcp")
    for _ in range(20):
        crowded.measure(next_caller)
    usual, worst = quiet.quantile(0.5), crowded.worst()
    cx.note(f"usually {usual * 1000:.0f} ms, beside the crowd at worst {worst * 1000:.0f} ms")
    check(worst < usual + 0.1, f"a caller waited {worst * 1000:.0f} ms, usually {usual * 1000:.0f} ms")


@case("D18", "sessions that clients leave without a word, as most do, must cost nothing")
def abandoned_sessions_leave_nothing(cx):
    # With a token, so that it does not matter which other processes there are.
    server = cx.serve(tokens=("ann",))
    abandon(server, 300)
    before = machine.resident_bytes(server.pid)
    abandon(server, 1000)
    cx.until(lambda: machine.descriptors(server.pid) < 40, "the connections are closed")
    grown = machine.resident_bytes(server.pid) - before
    cx.note(f"1000 abandoned sessions took {machine.mib(grown)}")
    check(grown < machine.MIB // 2, f"1000 abandoned sessions took {machine.mib(grown)}")


def abandon(server, count):
    for _ in range(count):
        session = server.session(token_of("ann"))
        with session.open_stream() as stream:
            stream.recv(1000)
        session.close()


@case("D22", "a caller that may not read a resource must neither subscribe to it nor learn that it exists")
def resources_of_others_cannot_be_watched(cx):
    server = cx.serve(tokens=("ann", "bob"))
    ann, bob = server.session(token_of("ann")), server.session(token_of("bob"))
    job = ann.call("shell_bg", command="sleep 300").data["id"]
    hers, none = f"job://{job}/output", f"job://{job[::-1]}/output"
    for method in ("resources/read", "resources/subscribe"):
        said = [bob.ask(method, {"uri": uri}) for uri in (hers, none)]
        check(said[0].refused, f"{method} of hers is answered: {said[0].text[:100]}")
        words = [answer.text.replace(uri, "URI").replace(uri[6:-7], "ID") for answer, uri in zip(said, (hers, none))]
        check(words[0] == words[1], f"{method} tells hers from none: {words}")
    stream = watch(server, token_of("bob"), [hers])
    cx.keep(stream)
    seen = stream.recv(1 << 14)
    check(hers.encode() not in seen, f"he may listen to hers: {seen[-300:]}")


def watch(server, token, uris):
    """The stream of a subscription of 2026-07-28."""
    caller = server.caller(token)
    params = {"notifications": {"resourceSubscriptions": uris}}
    body = wire.encode(wire.request(1, "subscriptions/listen", params, wire.MODERN))
    return http.send(server.port, "POST", body, caller.headers("subscriptions/listen", params))
