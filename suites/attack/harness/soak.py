"""Mixed use of one server by several clients for some minutes. What it holds must be flat after a warm-up."""

import argparse
import random
import secrets
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from driver import processes

from . import ending, machine
from .load import Load
from .visitors import Visitor
from .world import Context, World, token_of

REPOSITORY = Path(__file__).resolve().parents[3]
CALLERS = ("ann", "bob", "cleo", "dan")

# How much more than after the warm-up may be held at the end: kept results and caches fill up for a while.
MARGIN_BYTES = 8 * machine.MIB
MARGIN_DESCRIPTORS = 16
MARGIN_FILES = 100


@dataclass
class Name:
    """A soak is one long case."""

    name: str
    limit: float


@dataclass
class Figures:
    """What the server holds at one moment, when nobody calls it."""

    seconds: float
    calls: int
    resident: int
    proportional: int
    descriptors: int
    children: int
    files: int

    HEAD = "| seconds | calls | RSS | PSS | descriptors | processes | files of state |\n|--:|--:|--:|--:|--:|--:|--:|"

    def row(self):
        return (
            f"| {self.seconds:.0f} | {self.calls} | {machine.mib(self.resident)} | {machine.mib(self.proportional)} "
            f"| {self.descriptors} | {self.children} | {self.files} |"
        )


def main():
    args = parse()
    if not args.binary.is_file():
        sys.exit(f"suites/attack: there is no {args.binary}; run `cargo build -p lmcp-cli`, or name it with --binary")
    ending.unwind_on_signals()
    world = World(args.binary, f"lmcpsoak{secrets.token_hex(4)}")
    try:
        cx = Context(world, Name("soak", args.minutes * 60 + 300))
        try:
            return soak(cx, args)
        finally:
            cx.close()
    finally:
        world.close()


def parse():
    parser = argparse.ArgumentParser(prog="suites/attack/soak", description="Use a server for a while: does it grow?")
    parser.add_argument("--minutes", type=float, default=2, metavar="N", help="how long, 2 if not said")
    parser.add_argument("--binary", type=Path, default=REPOSITORY / "target/debug/lmcp", metavar="PATH")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="for what is left to chance")
    return parser.parse_args()


def soak(cx, args):
    server = cx.serve(tokens=CALLERS, unix=True)
    rounds = 8
    seconds = args.minutes * 60 / rounds
    began, calls, figures, failures = time.monotonic(), 0, [], {}
    fill_the_kept(server)
    print(Figures.HEAD, flush=True)
    for number in range(rounds):
        counts = use(cx, server, seconds, args.seed * 1000 + number)
        calls += sum(counts.values())
        for word, count in counts.items():
            failures[word] = failures.get(word, 0) + count
        if not server.is_alive():
            print(f"FAILED: the server has died: {server.log()[-300:]}")
            return 1
        figures.append(measure(cx, server, time.monotonic() - began, calls))
        print(figures[-1].row(), flush=True)
    print("\n" + ", ".join(f"{word} {count}" for word, count in sorted(failures.items())))
    complaints = judge(figures, failures)
    for complaint in complaints:
        print(f"FAILED: {complaint}")
    print(f"{calls} calls, {len(complaints)} complaints")
    return 1 if complaints else 0


def fill_the_kept(server):
    """Results of ended jobs are kept up to a number; from there on each new one replaces an old one."""
    for name in CALLERS:
        caller = server.caller(token_of(name))
        for _ in range(70):
            started = caller.call("shell_bg", command="true")
            if not started.refused:
                caller.call("job_output", id=started.data["id"], wait_exit=True, wait=20)


def use(cx, server, seconds, seed):
    """Several clients of each kind, for so long. What they met, by kind."""
    load = Load(seconds)
    try:
        for number, name in enumerate(CALLERS):
            visitor = Visitor(cx, server, token_of(name), random.Random(seed * 10 + number))
            for kind, visit in visitor.kinds().items():
                load.add(kind, visit)
        load.wait()
    finally:
        load.close()
    return load.counts


def measure(cx, server, seconds, calls):
    """Waits until what was left on purpose is gone, then looks."""
    deadline = time.monotonic() + 20
    while len(started_by(cx, server)) > 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    return Figures(
        seconds,
        calls,
        machine.resident_bytes(server.pid),
        machine.proportional_bytes(server.pid),
        machine.descriptors(server.pid),
        len(started_by(cx, server)),
        machine.folder_bytes(cx.state)[1],
    )


def started_by(cx, server):
    """Guards and commands, wherever they hang."""
    return {*processes.descendants(server.pid), *processes.carrying(cx.mark)} - {server.pid}


def judge(figures, failures):
    """Compares the end with the moment after the warm-up, a quarter of the time."""
    warm, last = figures[1], figures[-1]
    complaints = []
    for what, margin in (
        ("resident", MARGIN_BYTES),
        ("proportional", MARGIN_BYTES),
        ("descriptors", MARGIN_DESCRIPTORS),
        ("children", 0),
        ("files", MARGIN_FILES),
    ):
        before, after = getattr(warm, what), getattr(last, what)
        if after > before + margin:
            complaints.append(f"{what} grew from {before} to {after}")
    wrong = {word: count for word, count in failures.items() if " wrong" in word}
    if wrong:
        complaints.append(f"wrong answers: {wrong}")
    return complaints
