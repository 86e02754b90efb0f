"""Sessions that nobody ends, and streams that stay open: what each of them costs."""

import resource
import socket
from dataclasses import dataclass

from . import wire
from .http_load import ALL_CORES, Shape, post, run_script, say
from .process import HttpServer
from .wire import Failed

HANDSHAKES = 1_000_000
STREAMS = 5_000
# The peer keeps an object for every session: as many would take it half an hour.
PEER_HANDSHAKES = 10_000
PEER_STREAMS = 1_000


@dataclass
class Sessions:
    """Memory in kB before and after."""

    handshakes: int
    before: int
    after: int
    streams: int
    open_before: int
    open_after: int


def measure_sessions(lmcp, rmcp):
    """Program name → Sessions, or the sentence that says why there is none."""
    results = {}
    for program, handshakes, streams in ((rmcp, PEER_HANDSHAKES, PEER_STREAMS), (lmcp, HANDSHAKES, STREAMS)):
        if program.missing:
            results[program.name] = f"skipped: {program.missing}"
            continue
        try:
            results[program.name] = one(program, handshakes, streams)
        except (Failed, OSError) as error:
            results[program.name] = f"failed: {error}"
    return results


def one(program, handshakes, streams):
    with HttpServer(program) as server:
        shake_hands(server, 1)
        before = server.memory_kb("VmRSS")
        made = shake_hands(server, handshakes)
        after = server.memory_kb("VmRSS")
        say(f"sessions: {program.name}: {made:,} handshakes, {before} → {after} kB")
    with HttpServer(program) as server:
        sessions = [open_session(server) for _ in range(streams)]
        open_before = server.memory_kb("VmRSS")
        held = hold(server, sessions)
        open_after = server.memory_kb("VmRSS")
        # With all of them open it still works.
        _, answer, _ = post(server.port, wire.call(7, era=wire.LEGACY), headers(sessions[0]))
        wire.check_echo(answer, 7)
        for stream in held:
            stream.close()
        say(f"sessions: {program.name}: {streams:,} streams, {open_before} → {open_after} kB")
    return Sessions(made, before, after, streams, open_before, open_after)


def shake_hands(server, at_least):
    """Handshakes until there were so many; how many there were."""
    made = 0
    while made < at_least:
        seconds = 1 if at_least - made < 20_000 else 5
        shape = Shape("handshakes", 8, ALL_CORES)
        made += run_script(server, "initialize.lua", None, shape, seconds)["requests"]
    return made


def open_session(server):
    _, _, session = post(server.port, wire.initialize(0), wire.call_headers(wire.LEGACY))
    post(server.port, wire.initialized(), headers(session), expect=202)
    return session


def headers(session):
    return wire.call_headers(wire.LEGACY) | {"Mcp-Session-Id": session}


def hold(server, sessions):
    """A GET stream for each session, all open at once, the first bytes of each read."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held = []
    for session in sessions:
        stream = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        fields = {"Host": f"127.0.0.1:{server.port}", "Accept": "text/event-stream", "Mcp-Session-Id": session}
        fields["MCP-Protocol-Version"] = wire.LEGACY
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        stream.sendall(f"GET /mcp HTTP/1.1\r\n{lines}\r\n".encode())
        held.append(stream)
    for stream in held:
        head = b""
        while b"\r\n\r\n" not in head:
            piece = stream.recv(4096)
            if not piece:
                raise Failed(f"a stream was closed: {head[:200]!r}")
            head += piece
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise Failed(f"no stream: {head[:200]!r}")
    return held
