"""One budget of bytes: whatever callers make the server hold, alone or all at once, stays within it."""

import json
import select
import socket
import time

from driver import wire
from harness import http, machine
from harness.bystander import Bystander
from harness.case import Failed, case, check
from harness.limits import room_for_files
from harness.load import Load
from harness.website import Website
from harness.world import Sockets, token_of

BUDGET = 64 * machine.MIB
# What the server itself takes besides, by the word of its documentation.
BESIDES = 16 * machine.MIB
# What the shipped program has mapped of its own file at most.
CODE = 6 * machine.MIB
# Nearly as large as a message may be.
LARGE = 8_200_000

CALLERS = ("ann", "bob", "cleo", "dan")


def serve(cx, *options, **more):
    return cx.serve("--memory", "64M", *options, **more)


def code_of_a_debug_build(pid):
    """How much more of its own file a program has mapped than the one that is shipped: some 25 MiB of a debug build."""
    return max(0, machine.file_bytes(pid) - CODE)


def judge(cx, server, what, budget=BUDGET):
    check(server.is_alive(), f"the server has died: {server.log()[-300:]}")
    peak = machine.peak_bytes(server.pid) - code_of_a_debug_build(server.pid)
    cx.note(f"peak {machine.mib(peak)}, {peak / budget:.2f} of the budget")
    check(peak <= budget + BESIDES, f"{what} took {machine.mib(peak)} of a budget of {machine.mib(budget)}")
    answer = server.caller(token_of("ann") if server.has_tokens else None).call("list_dir", path=str(cx.root))
    check(not answer.refused, f"afterwards the server answers: {answer.text[:150]}")


@case("D5", "bodies that are sent slowly must not add up without end")
def bodies_being_read_stay_in_the_budget(cx):
    server, crowd = serve(cx), cx.keep(Sockets())
    part = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"' + b"x" * 2_000_000
    headers = server.caller().headers("tools/call", {"name": "shell"})
    for _ in range(80):
        connection = crowd.add(http.connect(server.port, seconds=1))
        try:
            connection.sendall(http.head("POST", "/mcp", headers, LARGE, server.port) + part)
        except OSError:
            pass  # It takes no more, which is right.
    judge(cx, server, "80 bodies of which 2 MB each were sent")


@case("D5", "small parts of bodies on as many connections as there may be must not add up", form="long")
def small_parts_on_all_connections_stay_in_the_budget(cx):
    room_for_files(1020)
    server, crowd = serve(cx), cx.keep(Sockets())
    head = http.head("POST", "/mcp", server.caller().headers("tools/call", {"name": "shell"}), LARGE, server.port)
    connections = [crowd.add(http.connect(server.port)) for _ in range(1020)]
    for part in (head, *4 * [b"x" * 40_000]):
        for connection in connections:
            connection.settimeout(0.2)
            try:
                connection.sendall(part)
            except OSError:
                pass  # It takes no more, or made room for another, which is right.
    judge(cx, server, "1,020 bodies of which 160 kB each were sent")


@case("D5", "calls in flight on one connection must not add up without end")
def calls_on_one_socket_stay_in_the_budget(cx):
    server = serve(cx, unix=True)
    call = {"name": "shell", "arguments": {"command": "sleep 30", "stdin": "x" * 4_000_000, "yield_after": 0}}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server.socket)
        connection.settimeout(3)
        try:
            for number in range(30):
                connection.sendall(wire.encode(wire.request(number, "tools/call", call, wire.MODERN)))
        except OSError:
            pass  # It reads no further, which is right.
        judge(cx, server, "30 calls with 4 MB of stdin each")


# JSON whose values take many times its bytes.
DENSE = b"[" + b",".join([b'{"":0}'] * 1_100_000) + b"]"


@case("D5", "what a handshake becomes once it is read must not add up")
def a_dense_handshake_stays_in_the_budget(cx):
    server = serve(cx, unix=True)
    params = wire.initialize_params() | {"capabilities": {"experimental": {"x": "DENSE"}}}
    message = wire.encode(wire.request(1, "initialize", params, wire.LEGACY)).rstrip()
    send_everywhere(server, message.replace(b'"DENSE"', DENSE))
    judge(cx, server, "a handshake of 8 MB")


@case("D5", "what an error of a client becomes once it is read must not add up")
def a_dense_error_stays_in_the_budget(cx):
    server = serve(cx, unix=True)
    send_everywhere(server, b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no","data":' + DENSE + b"}}")
    judge(cx, server, "an error response of 8 MB")


def send_everywhere(server, message):
    """Sends one message over HTTP, and on a unix socket behind it one whose answer shows that it was read."""
    http.send(server.port, "POST", message, http.base_headers(None)).close()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server.socket)
        connection.settimeout(20)
        ping = wire.encode(wire.request(2, "server/discover", {}, wire.MODERN))
        connection.sendall(message + b"\n" + ping)
        seen = b""
        while b'"id":2' not in seen:
            part = connection.recv(1 << 16)
            check(part, f"the connection ends: {seen[:200]}")
            seen += part


@case("D5", "answers to calls on many sockets that nobody reads must not add up", form="long")
def unread_answers_on_sockets_stay_in_the_budget(cx):
    room_for_files(1000)
    server, crowd = serve(cx, unix=True), cx.keep(Sockets())
    (cx.root / "large").write_text("words and more words\n" * 40_000)
    call = {"name": "read_file", "arguments": {"path": str(cx.root / "large")}}
    calls = b"".join(wire.encode(wire.request(number, "tools/call", call, wire.MODERN)) for number in range(300))
    for _ in range(1000):
        crowd.ask_and_not_read(server, calls)
    # The calls run from the first answer on.
    for connection in crowd.sockets:
        readable = select.poll()
        readable.register(connection, select.POLLIN)
        readable.poll(10_000)
    server.come_to_rest()
    judge(cx, server, "300 calls each on 1,000 sockets that nobody reads")


@case("D45", "short answers on many sockets that nobody reads must not add up", form="long")
def unread_short_answers_on_sockets_stay_in_the_budget(cx):
    room_for_files(600)
    server, crowd = serve(cx, unix=True), cx.keep(Sockets())
    (cx.root / "short").write_text("words and more words\n" * 150)
    call = {"name": "read_file", "arguments": {"path": str(cx.root / "short")}}
    calls = b"".join(wire.encode(wire.request(number, "tools/call", call, wire.MODERN)) for number in range(400))
    for _ in range(600):
        crowd.ask_and_not_read(server, calls)
    server.come_to_rest()
    judge(cx, server, "400 calls each on 600 sockets that nobody reads")


@case("D43", "answers to batches that nobody reads must not add up")
def unread_answers_to_batches_stay_in_the_budget(cx):
    server, crowd = serve(cx, unix=True), cx.keep(Sockets())
    leave_answers_to_batches(server, crowd, 60)
    judge(cx, server, "batches of 200 lists each that nobody reads")


@case("D43", "nor may they where the budget is larger")
def unread_answers_to_batches_stay_in_a_larger_budget(cx):
    server, crowd = cx.serve("--memory", "256M", unix=True), cx.keep(Sockets())
    for _ in range(12):
        leave_answers_to_batches(server, crowd, 20)
    judge(cx, server, "batches of 200 lists each on 12 connections that nobody reads", 4 * BUDGET)


def leave_answers_to_batches(server, crowd, batches):
    """A connection that asks for as many batches of lists, as long as it is read from, and reads nothing."""
    params = wire.initialize_params() | {"protocolVersion": "2025-03-26"}
    requests = [{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(200)]
    connection = crowd.add(socket.socket(socket.AF_UNIX))
    connection.connect(server.socket)
    connection.settimeout(2)
    connection.sendall(wire.encode({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params}))
    try:
        for _ in range(batches):
            connection.sendall(json.dumps(requests).encode() + b"\n")
    except OSError:
        pass  # It reads no further, which is right.


@case("D46", "answers to batches over HTTP that nobody reads must not add up")
def unread_answers_to_batches_over_http_stay_in_the_budget(cx):
    names = ("bob", "cleo", "dan", "eve")
    server, crowd = serve(cx, tokens=("ann", *names)), cx.keep(Sockets())
    params = wire.initialize_params() | {"protocolVersion": "2025-03-26"}
    hello = wire.encode({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    requests = json.dumps([{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(250)]).encode()
    for name, takes in [(name, takes) for takes in ("application/json", "text/event-stream") for name in 10 * names]:
        caller = server.caller(token_of(name))
        opened = caller.post(hello, http.base_headers(caller.token))
        caller.close()
        if opened.result is None:
            continue  # It gets no more sessions, which is right.
        headers = http.base_headers(caller.token) | {"Accept": takes, "Mcp-Session-Id": opened.headers["Mcp-Session-Id"]}
        batches = 4 * (http.head("POST", "/mcp", headers, len(requests), server.port) + requests)
        connection = crowd.ask_and_not_read(server, batches, wait=2, buffer=2048)
        try:
            # The socket takes in the first answer; the next one waits for it.
            connection.recv(1)
        except OSError:
            pass  # It takes no more, which is right.
    server.come_to_rest()
    judge(cx, server, "answers to four batches each on 80 connections that nobody reads")


@case("D5", "stdin of commands over HTTP must not add up without end")
def stdin_of_commands_stays_in_the_budget(cx):
    server, crowd = serve(cx), cx.keep(Sockets())
    session = server.session()
    for _ in range(24):
        try:
            crowd.add(session.call_unread("shell", command="sleep 30", stdin="x" * 7_900_000, yield_after=0))
        except OSError:
            pass
    judge(cx, server, "24 commands with 7.9 MB of stdin each")


@case("D5", "fetches of a page without end must not add up")
def fetches_stay_in_the_budget(cx):
    site, crowd = cx.keep(Website()), cx.keep(Sockets())
    server = serve(cx, "--fetch-allow", f"127.0.0.1:{site.port}")
    session = server.session()
    for number in range(24):
        crowd.add(session.call_unread("fetch", url=f"http://127.0.0.1:{site.port}/endless/{number}", timeout_s=20))
    for connection in crowd.sockets:
        connection.settimeout(20)
        try:
            connection.recv(1)
        except OSError:
            pass
    judge(cx, server, "24 fetches of a page without end")


@case("D52", "long titles and redirects of pages that are kept must not add up")
def what_is_kept_of_pages_stays_in_the_budget(cx):
    title = b"<title>" + b"x y" * 1_300_000 + b"</title>" + b"<p>words of a page</p>" * 200
    # As long as a header may be.
    far = "r" * 60_000
    site = cx.keep(Website(redirect=lambda rest: f"/to/{int(rest[0]) - 1}{far}" if rest[0] > "0" else "/page/0", pages=[title]))
    server = serve(cx, "--fetch-allow", f"127.0.0.1:{site.port}", wrap=["prlimit", "--as=300000000"])
    caller = server.caller()
    for number in range(128):
        caller.call("fetch", url=f"http://127.0.0.1:{site.port}/page/0?{number}", max_bytes=256)
        caller.call("fetch", url=f"http://127.0.0.1:{site.port}/to/4?{number}", max_bytes=256, user_agent="x" * 4_000_000)
        caller.call("fetch", url=f"http://127.0.0.1:{site.port}/to/4?{number}", max_bytes=256)
    judge(cx, server, "128 pages with long titles, redirects and user agents")


@case("D5", "posts to a legacy stream that nobody reads must not add up")
def a_stuck_legacy_stream_stays_in_the_budget(cx):
    server, crowd = serve(cx, "--legacy-sse"), cx.keep(Sockets())
    (cx.root / "large").write_text("words " * 400_000)
    endpoint = open_legacy(server, crowd)
    call = {"name": "shell", "arguments": {"command": "true", "stdin": "x" * LARGE}}
    body = wire.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    for _ in range(24):
        try:
            crowd.add(http.send(server.port, "POST", body, http.base_headers(None), path=endpoint, seconds=2))
        except OSError:
            pass
    server.come_to_rest()
    judge(cx, server, "24 posts of 8.2 MB to a stream that nobody reads")


def open_legacy(server, crowd, token=None, version="2024-11-05"):
    """A stream of HTTP+SSE with a reader that is stuck from the start. The path to post to."""
    stream = crowd.add(http.connect(server.port))
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    headers = http.base_headers(token) | {"Accept": "text/event-stream"}
    stream.sendall(http.head("GET", "/sse", headers, port=server.port))
    seen = b""
    while b"/messages" not in seen or not seen.rstrip(b"\r").endswith(b"\n"):
        part = stream.recv(4096)
        check(part, f"the stream ends: {seen[:200]}")
        seen += part
    endpoint = next(line[5:].strip() for line in seen.decode().splitlines() if line.startswith("data:"))
    params = wire.initialize_params() | {"protocolVersion": version}
    initialize = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    for message in (initialize, wire.notification("notifications/initialized", {})):
        http.send(server.port, "POST", wire.encode(message), http.base_headers(token), path=endpoint).close()
    return endpoint


@case("D44", "answers on many legacy streams that nobody reads must not add up")
def unread_answers_on_legacy_streams_stay_in_the_budget(cx):
    names = ("bob", "cleo", "dan", "eve")
    server, crowd = serve(cx, "--legacy-sse", tokens=("ann", *names)), cx.keep(Sockets())
    requests = [{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(150)]
    for name in 10 * names:
        token = token_of(name)
        try:
            # Whoever names a later revision has batches, and with them answers of megabytes.
            endpoint = open_legacy(server, crowd, token, "2025-03-26")
        except Failed:
            continue  # It gets no more streams, which is right.
        post = http.send(server.port, "POST", json.dumps(requests).encode(), http.base_headers(token), path=endpoint)
        crowd.add(post).settimeout(5)
        try:
            post.recv(100)
        except OSError:
            pass  # It waits until somebody reads, which is right.
    judge(cx, server, "150 lists each on 40 streams that nobody reads")


@case("D5", "subscriptions of many sessions must not add up")
def subscriptions_stay_in_the_budget(cx):
    server = serve(cx)
    uris = long_uris(server.caller())
    taken = refused = 0
    while taken < 10_000 and refused < 5:
        session = server.session()
        for uri in uris:
            answer = session.ask("resources/subscribe", {"uri": uri})
            taken, refused = taken + (not answer.refused), refused + answer.refused
        session.close()
    cx.note(f"{taken} were taken")
    judge(cx, server, f"{taken} subscriptions of 8 kB each")


def long_uris(caller):
    """The addresses of a resource that this caller may watch, as long and as many as may be in one session."""
    job = caller.call("shell_bg", command="sleep 300").data["id"]
    return [f"job://{job}/output?offset=" + "0" * 8_000 + str(number) for number in range(7)]


@case("D40", "a name of megabytes must not be copied, nor repeated", limit=120)
def names_without_end_stay_in_the_budget(cx):
    server = serve(cx, tokens=CALLERS)
    long = "a" * (LARGE - 200)
    messages = [
        wire.request(1, long, {}, wire.LEGACY),
        wire.request(1, "resources/read", {"uri": long}, wire.LEGACY),
        wire.request(1, "resources/subscribe", {"uri": f"job://{long}/output"}, wire.LEGACY),
        wire.request(1, "prompts/get", {"name": long}, wire.LEGACY),
    ]
    for message in messages:
        body = wire.encode(message).rstrip()
        connections = [http.connect(server.port, seconds=20) for _ in range(8)]
        for number, connection in enumerate(connections):
            headers = http.base_headers(token_of(CALLERS[number % len(CALLERS)]))
            try:
                connection.sendall(http.head("POST", "/mcp", headers, len(body), server.port) + body[:-1])
            except OSError:
                pass  # It takes no more, which is right.
        for connection in connections:
            try:
                connection.sendall(body[-1:])
                connection.recv(1 << 16)
            except OSError:
                pass
            connection.close()
    judge(cx, server, "names of 8 MB on eight connections")


@case("D5", "answers that nobody reads must not add up")
def unread_answers_stay_in_the_budget(cx):
    server, crowd = serve(cx), cx.keep(Sockets())
    (cx.root / "large").write_text("words and more words\n" * 40_000)
    caller = server.caller()
    params = {"name": "read_file", "arguments": {"path": str(cx.root / "large")}}
    body = wire.encode(wire.request(1, "tools/call", params, wire.MODERN))
    head = http.head("POST", "/mcp", caller.headers("tools/call", params), len(body), server.port)
    for _ in range(200):
        crowd.ask_and_not_read(server, head + body)
    server.come_to_rest()
    judge(cx, server, "200 answers that nobody reads")


@case("D38", "what unread answers leave in the allocator must not add to what comes next", form="long", alone=True)
def large_bodies_after_unread_answers_stay_in_the_budget(cx):
    room_for_files(1000)
    server, crowd = serve(cx, tokens=CALLERS), cx.keep(Sockets())
    (cx.root / "large").write_text("words and more words\n" * 40_000)
    params = {"name": "read_file", "arguments": {"path": str(cx.root / "large")}}
    body = wire.encode(wire.request(1, "tools/call", params, wire.MODERN))
    part = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"' + b"x" * (LARGE - 100)

    def send(name, length, text, times=1):
        headers = server.caller(token_of(name)).headers("tools/call", params)
        messages = (http.head("POST", "/mcp", headers, length, server.port) + text) * times
        crowd.ask_and_not_read(server, messages, wait=1, buffer=2048)

    for _ in range(600):
        send("ann", len(body), body, 100)
    server.come_to_rest()
    for number, connection in enumerate(crowd.sockets):
        if number % 12:
            connection.close()
    server.come_to_rest()
    for _ in range(10):
        send("bob", LARGE, part)
    server.come_to_rest()
    crowd.close()
    judge(cx, server, "unread answers on 600 connections, then 10 bodies of 8 MB")
    deadline = time.monotonic() + 10
    while (kept := kept_bytes(server.pid)) > BUDGET / 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    cx.note(f"{machine.mib(kept)} when all have gone")
    check(kept <= BUDGET / 2, f"the server keeps {machine.mib(kept)} though nobody is there any more")


def kept_bytes(pid):
    """What a process holds now, without the code of a debug build."""
    return machine.resident_bytes(pid) - code_of_a_debug_build(pid)


@case("D5", "under all of it at once a fifth caller's calls stay quick", form="long", alone=True, limit=240)
def the_whole_load_at_once_leaves_room_for_a_fifth_caller(cx):
    server, load, watch = under_the_whole_load(cx)
    cx.note(watch.summary())
    cx.note(load.summary())
    judge(cx, server, "the whole load")
    check(len(watch.seconds) > 50, f"the fifth caller made only {len(watch.seconds)} calls")
    check(watch.quantile(0.99) < 0.05, f"its p99 is {watch.quantile(0.99) * 1000:.0f} ms")


@case("D5", "under all of it at once nothing aborts in 300 MB of address space", form="long", alone=True, limit=240)
def the_whole_load_at_once_aborts_nothing(cx):
    server, load, watch = under_the_whole_load(cx, wrap=["prlimit", "--as=300000000"])
    cx.note(watch.summary())
    cx.note(load.summary())
    judge(cx, server, "the whole load")


def under_the_whole_load(cx, wrap=(), seconds=25):
    """Every attack on memory at once, from four callers, while a fifth one reads a file again and again."""
    room_for_files(3000)
    site, crowd = cx.keep(Website()), cx.keep(Sockets())
    options = ["--legacy-sse", "--fetch-allow", f"127.0.0.1:{site.port}"]
    server = serve(cx, *options, tokens=(*CALLERS, "eve"), unix=True, wrap=wrap)
    (cx.root / "file").write_text("a short file\n")
    (cx.root / "large").write_text("words and more words\n" * 40_000)
    caller = server.caller(token_of("eve"), seconds=20)

    def read_a_file():
        answer = caller.call("read_file", path=str(cx.root / "file"))
        return "" if "a short file" in answer.text else answer.text[:150]

    fifth = Bystander(read_a_file, seconds)
    load = cx.keep(Load(seconds))
    for number, name in enumerate(CALLERS):
        attacker = Attacker(server, token_of(name), crowd, cx.root / "large", site.port, number)
        load.add("body", attacker.send_half_a_body, 2)
        load.add("stdin", attacker.run_with_stdin)
        load.add("fetch", attacker.fetch_without_end, 2)
        load.add("legacy", attacker.post_to_a_stuck_stream)
        load.add("subscription", attacker.subscribe)
        load.add("unread", attacker.leave_an_answer)
    load.add("unix", lambda: run_on_the_socket(server), 2)
    load.wait()
    load.close()
    watch, complaint = fifth.result()
    check(server.is_alive(), f"the server has died: {server.log()[-300:]}")
    check(not complaint, f"the fifth caller is told, after {len(watch.seconds)} calls: {complaint}")
    return server, load, watch


class Attacker:
    """What one caller does to the memory of the server. Each method is one round, bounded in time."""

    def __init__(self, server, token, crowd, large, site_port, number):
        self.server, self.token, self.crowd = server, token, crowd
        self.large, self.site_port, self.number = large, site_port, number
        self.endpoint = self.uris = None
        self.body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":"' + b"x" * LARGE

    def send_half_a_body(self):
        headers = self.server.caller(self.token).headers("tools/call", {"name": "shell"})
        head = http.head("POST", "/mcp", headers, LARGE + 100, self.server.port)
        with http.connect(self.server.port, seconds=5) as connection:
            connection.sendall(head + self.body[: LARGE // 2])
            return word_of(connection.recv(1000))

    def run_with_stdin(self):
        caller = self.server.caller(self.token, seconds=10)
        answer = caller.call("shell", command="cat >/dev/null; sleep 1", stdin="x" * 7_900_000)
        return "refused" if answer.refused else "done"

    def fetch_without_end(self):
        url = f"http://127.0.0.1:{self.site_port}/endless/{self.number}/{time.monotonic_ns()}"
        answer = self.server.caller(self.token, seconds=10).call("fetch", url=url, timeout_s=5)
        return "refused" if answer.refused else "done"

    def post_to_a_stuck_stream(self):
        self.endpoint = self.endpoint or open_legacy(self.server, self.crowd, self.token)
        params = {"name": "read_file", "arguments": {"path": str(self.large)}, "padding": "x" * 4_000_000}
        body = wire.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        headers = http.base_headers(self.token)
        with http.send(self.server.port, "POST", body, headers, path=self.endpoint, seconds=5) as sent:
            word = word_of(sent.recv(1000))
        if word in ("404", "410"):
            self.endpoint = None
        return word

    def subscribe(self):
        session = self.server.session(self.token, seconds=10)
        self.uris = self.uris or long_uris(session)
        answers = [session.ask("resources/subscribe", {"uri": uri}) for uri in self.uris]
        session.close()
        return "refused" if any(answer.refused for answer in answers) else "done"

    def leave_an_answer(self):
        caller = self.server.caller(self.token)
        params = {"name": "read_file", "arguments": {"path": str(self.large)}}
        body = wire.encode(wire.request(1, "tools/call", params, wire.MODERN))
        with http.send(self.server.port, "POST", body, caller.headers("tools/call", params), seconds=5) as connection:
            return word_of(connection.recv(100))


def word_of(data):
    """The status in the first bytes of a response."""
    return data[9:12].decode(errors="replace") or "closed"


def run_on_the_socket(server):
    """Large calls on a unix socket, whose answers are read late."""
    call = {"name": "shell", "arguments": {"command": "cat >/dev/null; sleep 1", "stdin": "x" * 7_900_000}}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(server.socket)
        for number in range(8):
            connection.sendall(wire.encode(wire.request(number, "tools/call", call, wire.MODERN)))
        answers = connection.makefile("rb")
        refused = sum(json.loads(answers.readline()).get("result") is None for _ in range(8))
        return f"refused {refused} of 8" if refused else "done"
