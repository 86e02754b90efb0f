"""stdio: a flood of calls from a client that reads or does not, and the time from exec to the first list.

The driver must never be the limit: the flood is one prepared buffer, the
answers are only counted while the clock runs and looked at afterwards.
"""

import os
import select
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field

from . import wire
from .http_load import say
from .process import Server
from .wire import Failed

CALLS = 50_000


@dataclass
class Flood:
    """One program's floods, one value a round; memory in kB."""

    rate: list = field(default_factory=list)
    cpu_micros: list = field(default_factory=list)
    sampled_peak: list = field(default_factory=list)
    high_water: list = field(default_factory=list)


def measure_floods(programs, settings):
    """Program name → {"reading": Flood, "late": Flood}, or why there is none."""
    ids = range(wire.FIRST_ID, wire.FIRST_ID + CALLS)
    flood = b"".join(wire.call(id) + b"\n" for id in ids)
    results = {program.name: {"reading": Flood(), "late": Flood()} for program in programs}
    for round in range(settings.rounds):
        turn = round % max(len(programs), 1)
        for program in programs[turn:] + programs[:turn]:
            for client, pause in (("reading", 0), ("late", PAUSE)):
                if isinstance(results[program.name], str):
                    continue
                try:
                    one_flood(program, flood, ids, pause, results[program.name][client])
                except (Failed, OSError) as error:
                    results[program.name] = f"failed, {client} client: {error}"
                    continue
                done = results[program.name][client]
                peak = max(done.sampled_peak[-1], done.high_water[-1])
                say(f"stdio round {round + 1}: {program.name}, {client} client: {done.rate[-1]:,.0f}/s, {peak} kB")
    return results


def one_flood(program, flood, ids, pause, into):
    with Server([program.path, "stdio"], subprocess.PIPE, subprocess.PIPE) as server:
        deadline = threading.Timer(LIMIT, server.child.kill)
        deadline.start()
        try:
            # The first call pays for starting up; the flood should not.
            os.write(server.child.stdin.fileno(), wire.call(1) + b"\n")
            wire.check_echo(read_line(server.child.stdout.fileno()), 1)
            run_flood(server, flood, ids, pause, into)
        finally:
            deadline.cancel()


def run_flood(server, flood, ids, pause, into):
    peak = [0]
    over = threading.Event()
    writer = threading.Thread(target=write_all, args=(server.child.stdin.fileno(), flood))
    sampler = threading.Thread(target=sample, args=(server, over, peak))
    cpu, start = server.cpu_seconds(), time.perf_counter()
    sampler.start()
    writer.start()
    time.sleep(pause)
    resumed = time.perf_counter()
    try:
        answers = read_lines(server.child.stdout.fileno(), len(ids))
        end = time.perf_counter()
        cpu = server.cpu_seconds() - cpu
    finally:
        over.set()
        sampler.join()
    writer.join()
    # Without a pause both moments are the same; with one, the rate is that of catching up.
    into.rate.append(len(ids) / (end - (resumed if pause else start)))
    into.cpu_micros.append(cpu / len(ids) * 1e6)
    into.sampled_peak.append(peak[0])
    into.high_water.append(server.memory_kb("VmHWM"))
    check_all(answers, ids)


def write_all(fd, data):
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except BrokenPipeError:
        # The reading side reports the end of the server with more to say.
        pass


def sample(server, over, peak):
    while not over.wait(SAMPLE_EVERY):
        peak[0] = max(peak[0], server.memory_kb("VmRSS") or 0)


def read_lines(fd, count):
    """Exactly `count` lines, still in the pieces they came in."""
    pieces = []
    lines = 0
    while lines < count:
        piece = os.read(fd, 1 << 20)
        if not piece:
            raise Failed(f"the server ended, or its time was over, with {lines} of {count} answers given")
        pieces.append(piece)
        lines += piece.count(b"\n")
    return pieces


def read_line(fd):
    return b"".join(read_lines(fd, 1))


def check_all(pieces, ids):
    """Every id answered once, every answer the echo; order is the server's own affair."""
    waiting = set(ids)
    for line in b"".join(pieces).splitlines():
        id = wire.echoed_id(line)
        if id not in waiting:
            raise Failed(f"not the one answer to an open call: {line[:300]!r}")
        waiting.remove(id)
    if waiting:
        raise Failed(f"{len(waiting)} calls were not answered")


def measure_starts(programs):
    """Program name → seconds from exec to the first tools/list answer, or why there is none."""
    results = {program.name: [] for program in programs}
    for run in range(STARTS + 1):
        for program in programs:
            if isinstance(results[program.name], str):
                continue
            try:
                seconds = one_start(program)
            except (Failed, OSError) as error:
                results[program.name] = f"failed: {error}"
                continue
            # The first run brings the file into the page cache and is not counted.
            if run > 0:
                results[program.name].append(seconds)
    say(f"start: {STARTS} runs of each done")
    return results


def one_start(program, arguments=("stdio",), tool="echo"):
    request = wire.list_tools(1) + b"\n"
    child_in, to_child = os.pipe()
    from_child, child_out = os.pipe()
    actions = [
        (os.POSIX_SPAWN_DUP2, child_in, 0),
        (os.POSIX_SPAWN_DUP2, child_out, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    start = time.perf_counter()
    # `posix_spawn` rather than `subprocess`: less of Python's own time is in the figure.
    pid = os.posix_spawn(program.path, [program.path, *arguments], os.environ, file_actions=actions)
    try:
        os.close(child_in)
        os.close(child_out)
        os.write(to_child, request)
        readable, _, _ = select.select([from_child], [], [], START_LIMIT)
        if not readable:
            raise Failed(f"no list within {START_LIMIT} s")
        answer = read_line(from_child)
        seconds = time.perf_counter() - start
    finally:
        os.close(to_child)
        os.close(from_child)
        reap(pid)
    if f'"{tool}"'.encode() not in answer:
        raise Failed(f"no `{tool}` in the list: {answer[:300]!r}")
    return seconds


def reap(pid):
    """The end of its input ends a server; one that stays is killed."""
    end = time.monotonic() + START_LIMIT
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.001)


# Seconds the late client sends without reading.
PAUSE = 2
# Seconds between two looks at the memory.
SAMPLE_EVERY = 0.005
# Seconds after which a flood is given up.
LIMIT = 120
# Seconds a server may take to its first list, and to end after its input did.
START_LIMIT = 5
# Runs in the median of the start.
STARTS = 50
