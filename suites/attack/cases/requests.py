"""Bytes that no client sends: broken requests, fuzzed lines, forged sessions and tokens."""

import json
import os
import random
import socket
import threading

from driver import wire
from harness import http
from harness.case import case, check
from harness.world import token_of


def broken_requests(port):
    """Raw HTTP that is wrong in one way each."""
    host = f"Host: 127.0.0.1:{port}\r\n".encode()
    json_type = b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    post = b"POST /mcp HTTP/1.1\r\n" + host + json_type
    ping = wire.encode(wire.request(1, "ping", {}, wire.MODERN))
    yield from (b"", b"\r\n" * 100, b"\0" * 4096, os.urandom(4096), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    yield from (b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"POST /mcp\r\n\r\n")
    for verb in (b"GET", b"PUT", b"PATCH", b"TRACE", b"CONNECT", b"OPTIONS", b"X" * 5000):
        yield verb + b" /mcp HTTP/1.1\r\n" + host + b"\r\n"
    for path in (b"/", b"/..", b"/mcp/../mcp", b"/mcp%00", b"/" + b"a" * 70000, b"http://127.0.0.1/mcp", b"*"):
        yield b"POST " + path + b" HTTP/1.1\r\n" + host + json_type + b"Content-Length: 2\r\n\r\n{}"
    twice = b"2\r\nContent-Length: 3"
    for length in (b"-1", b"+2", b"0x2", b"2, 2", b"99999999999999999999", b"18446744073709551615", b"", twice):
        yield post + b"Content-Length: " + length + b"\r\n\r\n{}"
    for coding in (b"chunked, chunked", b"gzip", b"chunked\r\nContent-Length: 2", b"identity", b"x" * 1000):
        yield post + b"Transfer-Encoding: " + coding + b"\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    for chunk in (b"-2\r\n{}", b"ffffffffffffffff\r\n{}", b"2;" + b"e" * 9000 + b"\r\n{}", b"zz\r\n", b"2\r\n{}xx"):
        yield post + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"\r\n0\r\n\r\n"
    for body in broken_messages():
        yield post + b"Content-Length: %d\r\n\r\n" % len(body) + body
    many = b"\r\n".join([b"A: b"] * 300)
    for header in (b"X: " + b"y" * 100_000, b"X" * 100_000 + b": y", b"no colon", b"\0: x", b"A: b\r\n c", many):
        yield post + header + b"\r\nContent-Length: %d\r\n\r\n" % len(ping) + ping
    for other in (b"evil.example", b"127.0.0.1.evil.example", b"[::1", b"", b"a" * 10_000, b"127.0.0.1:99999"):
        head = b"POST /mcp HTTP/1.1\r\nHost: " + other + b"\r\n" + json_type
        yield head + b"Content-Length: %d\r\n\r\n" % len(ping) + ping


def broken_messages():
    """JSON that is no request, or one that is wrong in one way each."""
    yield from (b"", b"{", b"[]", b"[[]]", b"null", b"1", b'"x"', b"{}" * 1000, b"nan", b"\0")
    yield from (b"\xff\xfe{}", b"\xef\xbb\xbf{}")
    yield from (b"[" * 100_000, b'{"a":' * 50_000, b'{"jsonrpc":"2.0"}', b'{"jsonrpc":"1.0","id":1,"method":"ping"}')
    for id in ("null", "1e400", "-0", "{}", "[]", '"' + "i" * 5000 + '"', "99999999999999999999999", "true", "1.5"):
        yield f'{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{}}}}'.encode()
    for method in ('""', "1", "null", '"\\u0000"', '"tools/call\\n"', '"' + "m" * 9000 + '"', '"\\ud800"'):
        yield f'{{"jsonrpc":"2.0","id":1,"method":{method}}}'.encode()
    metas = ('{"_meta":1}', '{"_meta":{"progressToken":{}}}')
    for params in ("1", "[]", '"x"', "null", '{"name":1}', '{"arguments":[]}', *metas):
        yield f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'.encode()
    yield b'{"jsonrpc":"2.0","id":1,"method":"ping","id":2,"method":"tools/list"}'


def expect_health(cx, server):
    check(server.is_alive(), f"the server has died: {server.log()[-300:]}")
    check("panic" not in server.log().lower(), f"a panic: {server.log()[-300:]}")
    answer = server.caller().call("list_dir", path=str(cx.root))
    check(not answer.refused, f"the server does not answer any more: {answer.text[:200]}")


@case("held", "nothing that comes over HTTP makes the server panic, or serves what it should not")
def broken_requests_hurt_nobody(cx):
    server, count = cx.serve(), 0
    for data in broken_requests(server.port):
        http.raw(server.port, data, seconds=2)
        count += 1
    cx.note(f"{count} requests")
    expect_health(cx, server)


@case("held", "a web page must not reach a local server through a browser, by another name or origin")
def other_hosts_and_origins_are_refused(cx):
    server = cx.serve()
    body = wire.encode(wire.request(1, "tools/call", {"name": "jobs", "arguments": {}}, wire.MODERN))
    headers = server.caller().headers("tools/call", {"name": "jobs"})
    hosts = [{"Host": "evil.example"}, {"Host": f"evil.example:{server.port}"}]
    for extra in [*hosts, {"Origin": "http://evil.example"}, {"Origin": "null"}]:
        answer = server.caller().post(body, headers | extra)
        check(answer.status == 403, f"with {extra} the answer is {answer.status}")


@case("held", "nothing that comes on a line makes the server panic, or ends the connection")
def fuzzed_lines_hurt_nobody(cx):
    server = cx.serve(unix=True)
    chance = random.Random(7)
    good = [
        wire.request(n, method, params, wire.MODERN)
        for n, (method, params) in enumerate(
            [
                ("tools/list", {}),
                ("tools/call", {"name": "list_dir", "arguments": {"path": str(cx.root)}}),
                ("resources/read", {"uri": "job://x/output"}),
                ("server/discover", {}),
                ("notifications/cancelled", {"requestId": 1}),
            ]
        )
    ]
    seeds = [json.dumps(message).encode() for message in good] + list(broken_messages())
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server.socket)
        connection.settimeout(20)
        seen = []
        # Answers are large, and a server waits for whoever does not read.
        reader = threading.Thread(target=lambda: seen.append(read_until(connection, b'"last"')))
        reader.start()
        for _ in range(1000):
            line = mutate(chance, chance.choice(seeds))
            connection.sendall(line.replace(b"\n", b" ") + b"\n")
        connection.sendall(wire.encode(wire.request("last", "server/discover", {}, wire.MODERN)))
        reader.join()
        check(seen and b'"last"' in seen[0], "the connection does not answer any more")
    expect_health(cx, server)


def mutate(chance, line):
    line = bytearray(line[:4000])
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(line) + 1)
        kind = chance.randrange(3)
        if kind == 0:
            line[at:at] = bytes([chance.randrange(256)])
        elif kind == 1:
            del line[at : at + chance.randrange(8)]
        elif line:
            line[at % len(line)] = chance.randrange(256)
    return bytes(line)


def read_until(connection, word):
    """The end of what came, up to the word if it came."""
    seen = b""
    try:
        while word not in seen and (part := connection.recv(1 << 16)):
            seen = seen[-1000:] + part
    except OSError:
        pass
    return seen


@case("held", "without a good token nothing is served, and nothing told")
def wrong_tokens_get_nothing(cx):
    server, good = cx.serve(tokens=("ann",), unix=False), token_of("ann")
    changed = [good[:-1], good + "x", good.upper(), f"{good},{good}", good.replace("a", "b", 1)]
    for token in [None, "", "x", "Bearer", "x" * 9000, *changed]:
        answer = server.caller(token).call("jobs")
        check(answer.status in (400, 401, 431), f"with the token {str(token)[:50]!r} the answer is {answer.status}")
        check(b"lmcp" not in answer.body.lower() or b"tools" not in answer.body, "something is told")
    for scheme in ("Basic", "bearer2", ""):
        headers = server.caller().headers("tools/list") | {"Authorization": f"{scheme} {good}".strip()}
        body = wire.encode(wire.request(1, "tools/list", {}, wire.MODERN))
        check(server.caller().post(body, headers).status == 401, f"the scheme {scheme!r} is taken")
    check(not server.caller(good).call("jobs").refused, "the good token is refused")


@case("held", "sessions can be neither guessed, made, changed nor used by another caller")
def forged_sessions_are_none(cx):
    server = cx.serve(tokens=("ann", "bob"))
    ann, bob = server.session(token_of("ann")), server.session(token_of("bob"))
    real, forged = ann.id, ["", "x", "0" * len(ann.id), ann.id[:-1], ann.id + "A", ann.id[::-1]]
    forged += [real[:at] + ("A" if real[at] != "A" else "B") + real[at + 1 :] for at in range(0, len(real) - 1, 5)]
    for id in [*forged, bob.id]:
        ann.id = id
        answer = ann.call("jobs")
        check(answer.refused, f"the session {id[:40]!r} is taken")
    ann.id = real
    check(not ann.call("jobs").refused, "the real session is lost")
    ann.end()
    check(ann.call("jobs").refused, "an ended session is taken")


@case("held", "another's stream cannot be resumed, by whatever Last-Event-ID")
def streams_of_others_cannot_be_resumed(cx):
    server = cx.serve(tokens=("ann", "bob"))
    ann, bob = server.session(token_of("ann")), server.session(token_of("bob"))
    stream = ann.call_unread("shell", command="sleep 2; echo hers-alone")
    stream.settimeout(10)
    seen = read_until(stream, b"id:")
    stream.close()
    ids = [line[3:].strip().decode() for line in seen.splitlines() if line.startswith(b"id:")]
    check(ids, f"the stream has no ids: {seen[-200:]}")
    for id in [*ids, "0", "x" * 5000, ids[0] + "1", "-1", "../1"]:
        with bob.open_stream(last_event=id) as other:
            other.settimeout(0.5)
            check(b"hers-alone" not in http.read_all(other), "her answer was given to another")
    with ann.open_stream(last_event=ids[0]) as own:
        own.settimeout(10)
        check(b"hers-alone" in read_until(own, b"hers-alone"), "she does not get her own answer")
