"""HTTP: an echo call under `wrk`, in either era, and the memory of a server nobody has called yet."""

import http.client
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from . import wire
from .process import HttpServer
from .programs import BENCH
from .wire import Failed



@dataclass(frozen=True)
class Shape:
    """How a server is loaded; `cores` is where it and wrk may run."""

    name: str
    connections: int
    cores: frozenset


ALL_CORES = frozenset(os.sched_getaffinity(0))
ONE_CORE = frozenset({max(ALL_CORES)})

# With one connection client and server never run at the same time. Left free,
# they end up on one core or on two as the scheduler likes, and on two most of
# the CPU time is that of waking a sleeping core. On one core it is the work.
SHAPES = (Shape("c=1", 1, ALL_CORES), Shape("c=1, one core", 1, ONE_CORE), Shape("c=32", 32, ALL_CORES))
WARM_UP = SHAPES[-1]


@dataclass
class Load:
    """One program under load: per shape, one value a round."""

    rate: dict = field(default_factory=lambda: {shape: [] for shape in SHAPES})
    cpu_micros: dict = field(default_factory=lambda: {shape: [] for shape in SHAPES})
    p50_micros: dict = field(default_factory=lambda: {shape: [] for shape in SHAPES})
    rss_after_kb: int = 0
    answer_bytes: int = 0
    answer_type: str = ""


def measure_load(programs, era, settings):
    """Program name → Load, or the sentence that says why there is none."""
    results = {}
    with ExitStack() as stack:
        ready = []
        for program in programs:
            try:
                server = stack.enter_context(HttpServer(program))
                load = Load()
                session = open_session(server.port, program, era, load)
                run_wrk(server, era, session, WARM_UP, 1)
            except (Failed, OSError) as error:
                results[program.name] = f"failed: {error}"
                continue
            results[program.name] = load
            ready.append((program, server, session))
        for round in range(settings.rounds):
            # Whoever goes first must not be the same one each time.
            turn = round % max(len(ready), 1)
            for program, server, session in ready[turn:] + ready[:turn]:
                if isinstance(results[program.name], Load):
                    one_round(program, server, session, era, round, results, settings)
    return results


def one_round(program, server, session, era, round, results, settings):
    load = results[program.name]
    try:
        for shape in SHAPES:
            cpu = server.cpu_seconds()
            seen = run_wrk(server, era, session, shape, settings.seconds)
            cpu = server.cpu_seconds() - cpu
            load.rate[shape].append(seen["requests"] / seen["micros"] * 1e6)
            load.cpu_micros[shape].append(cpu / seen["requests"] * 1e6)
            load.p50_micros[shape].append(seen["p50"])
            rate, micros = load.rate[shape][-1], load.cpu_micros[shape][-1]
            say(f"http {era} round {round + 1}: {program.name}, {shape.name}: {rate:,.0f}/s, {micros:.1f} µs")
        load.rss_after_kb = server.memory_kb("VmRSS")
    except (Failed, OSError) as error:
        results[program.name] = f"failed: {error}"


def run_wrk(server, era, session, shape, seconds):
    return run_script(server, "modern.lua" if era == wire.MODERN else "legacy.lua", session, shape, seconds)


def run_script(server, name, session, shape, seconds):
    script = BENCH / "load" / name
    url = f"http://127.0.0.1:{server.port}/mcp"
    command = ["wrk", "-t1", f"-c{shape.connections}", f"-d{seconds}s", "-s", script, url]
    options = {
        "env": os.environ | {"SID": session or ""},
        "preexec_fn": lambda: os.sched_setaffinity(0, shape.cores),
        "capture_output": True,
        "text": True,
    }
    server.pin(shape.cores)
    try:
        # `run` ends wrk itself when the time is over.
        wrk = subprocess.run(command, timeout=seconds + 30, **options)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"wrk did not end: {error}") from error
    line = next((line for line in wrk.stdout.splitlines() if line.startswith("RESULT ")), None)
    if line is None:
        raise Failed(f"wrk gave no result: {wrk.stderr.strip() or wrk.stdout.strip()}")
    seen = json.loads(line.removeprefix("RESULT "))
    if seen["requests"] == 0 or seen["bad_status"] or seen["socket_errors"]:
        raise Failed(f"wrk saw errors at {shape.name}: {line}")
    return seen


def open_session(port, program, era, load):
    """Proves that the server echoes, notes the answer's size; the session id in the legacy era, if any."""
    session = None
    if era == wire.LEGACY and program.speaks_mcp:
        headers = wire.call_headers(era)
        _, _, session = post(port, wire.initialize(0), headers)
        if session:
            post(port, wire.initialized(), with_session(headers, session), expect=202)
    headers = with_session(wire.call_headers(era), session)
    load.answer_type, answer, _ = post(port, wire.call(wire.FIRST_ID + 1, era=era), headers)
    load.answer_bytes = len(answer)
    wire.check_echo(answer, wire.FIRST_ID + 1)
    if program.speaks_mcp:
        # A text no program can know beforehand: it is echoed, not remembered.
        text = f"{time.time_ns()} \" \\ ü"
        _, answer, _ = post(port, wire.call(7, text, era), headers)
        wire.check_echo(answer, 7, text)
    return session


def with_session(headers, session):
    return headers | {"Mcp-Session-Id": session} if session else headers


def post(port, body, headers, expect=200):
    """Media type, message and session id of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", "/mcp", body, headers)
        response = connection.getresponse()
        answer = response.read()
    except http.client.HTTPException as error:
        raise Failed(f"no HTTP answer: {error!r}") from error
    finally:
        connection.close()
    if response.status != expect:
        raise Failed(f"HTTP {response.status} instead of {expect}: {answer[:300]!r}")
    media_type = (response.headers["Content-Type"] or "").split(";")[0]
    if media_type == "text/event-stream":
        answer = wire.last_event(answer)
    return media_type, answer, response.headers["Mcp-Session-Id"]


@dataclass
class Idle:
    """VmRSS in kB of fresh HTTP servers, one value a round."""

    started: list = field(default_factory=list)
    called_once: list = field(default_factory=list)


def measure_idle(programs, settings):
    """Program name → Idle, or the sentence that says why there is none."""
    results = {program.name: Idle() for program in programs}
    for round in range(settings.rounds):
        for program in programs:
            idle = results[program.name]
            if not isinstance(idle, Idle):
                continue
            try:
                with HttpServer(program) as server:
                    time.sleep(SETTLE)
                    idle.started.append(server.memory_kb("VmRSS"))
                    call = wire.call(wire.FIRST_ID)
                    _, answer, _ = post(server.port, call, wire.call_headers(wire.MODERN))
                    if program.speaks_mcp:
                        wire.check_echo(answer, wire.FIRST_ID)
                    time.sleep(SETTLE)
                    idle.called_once.append(server.memory_kb("VmRSS"))
                say(f"idle round {round + 1}: {program.name} {idle.started[-1]} → {idle.called_once[-1]} kB")
            except (Failed, OSError) as error:
                results[program.name] = f"failed: {error}"
    return results


def say(line):
    print(line, file=sys.stderr, flush=True)


# Seconds in which a server finishes what it does after it began to listen.
SETTLE = 0.3
