"""The command line of `bench/run`: what to measure, for how long, where to write it."""

import argparse
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from hops.report import MARKS as HOPS
from side_by_side.report import MARKS as TASKS
from side_by_side.report import section_in

from . import wire
from .chart import draw
from .client_load import clients, measure_clients
from .host_load import measure_host
from .http_load import measure_idle, measure_load
from .programs import BENCH, TARGET, command_line, ensure, lmcp_alone, programs, sessionless
from .proxy_load import measure_proxy
from .report import render
from .session_load import measure_sessions
from .stdio_load import measure_floods, measure_starts

SECTIONS = ("memory", "http", "legacy", "sessions", "stdio", "start", "host", "proxy", "client")


@dataclass
class Settings:
    rounds: int
    seconds: int
    load_before: float


def main():
    args = parse()
    # An exit that unwinds, so that no server is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended by a signal"))
    sections = SECTIONS if args.only is None else (args.only,)
    if not sys.platform.startswith("linux"):
        sys.exit("bench: only Linux shows another process's memory and CPU time the way this reads them")
    if {"http", "legacy", "sessions"} & set(sections):
        ensure("wrk", "wrk")
    if "host" in sections:
        ensure("rg", "ripgrep")
    find = lmcp_alone if sections == ("client",) else programs
    everyone = find(not args.no_build, args.lmcp)
    callers = clients(not args.no_build) if "client" in sections else []
    binary = command_line(not args.no_build and {"sessions", "host", "proxy"} & set(sections))
    settings = Settings(
        rounds=args.rounds or (3 if args.quick else 5),
        seconds=args.seconds or (1 if args.quick else 5),
        load_before=os.getloadavg()[0],
    )

    results = measure(sections, everyone, callers, binary, settings)
    report = render(everyone, [client for client, _ in callers], results, settings)
    out = args.out or destination(args.only)
    # The sections of bench/tasks and bench/hop stay as they are.
    others = [section_in(out, marks) for marks in (TASKS, HOPS)]
    out.write_text("\n".join([report, *filter(None, others)]))
    print(report)
    failures = [
        f"bench: {section}: {name} {result}"
        for section, figures in results.items()
        for name, result in figures.items()
        if isinstance(result, str) and not result.startswith("skipped")
    ]
    if args.only is None and not failures:
        draw(out)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def measure(sections, everyone, callers, binary, settings):
    present = [program for program in everyone if not program.missing]
    rmcp = next((program for program in everyone if program.name == "rmcp"), None)
    mcp = [program for program in present if program.speaks_mcp]
    echo = next(program for program in everyone if program.name == "lmcp")
    ways = {
        "memory": lambda: measure_idle(present, settings),
        "http": lambda: measure_load(present, wire.MODERN, settings),
        "legacy": lambda: measure_load([*present, sessionless(rmcp)], wire.LEGACY, settings),
        "sessions": lambda: measure_sessions(binary, rmcp),
        "stdio": lambda: measure_floods(mcp, settings),
        "start": lambda: measure_starts(mcp),
        "host": lambda: measure_host(binary, settings),
        "proxy": lambda: measure_proxy(binary, settings),
        "client": lambda: measure_clients(callers, echo, settings),
    }
    skipped = {program.name: f"skipped: {program.missing}" for program in everyone if program.missing}
    return {section: skipped | ways[section]() for section in sections}


def destination(only):
    """RESULTS.md is for runs of everything; a part of it goes where nothing is kept."""
    if only is None:
        return BENCH / "RESULTS.md"
    TARGET.mkdir(exist_ok=True)
    return TARGET / f"RESULTS-{only}.md"


def parse():
    parser = argparse.ArgumentParser(prog="bench/run", description="Measure lmcp beside its peers.")
    parser.add_argument("--quick", action="store_true", help="3 rounds of 1 s instead of 5 of 5 s")
    parser.add_argument("--rounds", type=positive, help="rounds in each median")
    parser.add_argument("--seconds", type=positive, help="seconds of HTTP load per round and shape")
    parser.add_argument("--only", choices=SECTIONS, help="one section instead of all")
    parser.add_argument("--no-build", action="store_true", help="measure what is built already")
    parser.add_argument("--lmcp", type=program, metavar="PATH", help="an echo program of lmcp built elsewhere")
    parser.add_argument("--out", type=Path, metavar="PATH", help="where the report goes")
    return parser.parse_args()


def program(text):
    path = Path(text).resolve()
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no program at `{text}`")
    return path


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a positive number")
    return number
