"""`bench/compare`: every figure of two builds, measured in turn so that the machine's moods fall on both alike."""

import argparse
import os
import statistics
from dataclasses import replace
from pathlib import Path

from . import wire
from .cli import Settings, positive
from .host_load import CALLS, measure_host
from .http_load import SHAPES, measure_idle, measure_load
from .programs import TARGET, Program, ensure
from .proxy_load import measure_proxy
from .session_load import one as measure_sessions
from .stdio_load import measure_floods, measure_starts
from .wire import Failed

SECTIONS = ("memory", "http", "legacy", "stdio", "start", "host", "proxy", "sessions")
SIDES = ("old", "new")
# Fewer than in `bench/run`: two builds are measured, and only their ratio counts.
HANDSHAKES, STREAMS = 100_000, 1_000


def main():
    args = parse()
    ensure("wrk", "wrk")
    ensure("rg", "ripgrep")
    settings = Settings(args.rounds, args.seconds, os.getloadavg()[0])
    TARGET.mkdir(exist_ok=True)
    worst = 0
    print(f"load before: {settings.load_before:.2f}; {args.rounds} rounds; medians, smaller is better")
    print(f"{'figure':44} {'old':>10} {'new':>10}  new/old  range of new/old by round")
    for section in args.only or SECTIONS:
        figures = {side: WAYS[section](args, side, settings) for side in SIDES} if section in SOLO else WAYS[section](args, settings)
        for name in figures["old"]:
            worst = max(worst, show(f"{section}: {name}", figures["old"][name], figures["new"][name]))
    print(f"worst ratio: {worst:.3f}")
    return 0 if worst <= args.tolerance else 1


def show(name, old, new):
    """Prints one line and returns the ratio of the medians."""
    ratio = statistics.median(new) / statistics.median(old)
    by_round = sorted(b / a for a, b in zip(old, new)) if len(old) <= 20 else []
    spread = f"{by_round[0]:.3f} … {by_round[-1]:.3f}" if by_round else ""
    print(f"{name:44} {statistics.median(old):10.2f} {statistics.median(new):10.2f}  {ratio:7.3f}  {spread}", flush=True)
    return ratio


def echoes(args):
    return [Program(side, side, getattr(args, side) / "examples" / "echo") for side in SIDES]


def binary(args, side):
    serve = ("serve", "--demo", "--http", "127.0.0.1:{port}", "--state-dir", str(TARGET / "state"))
    return Program("lmcp", side, getattr(args, side) / "lmcp", serve=serve)


def sound(results):
    """The results, unless one of them is the sentence that says why there is none."""
    for name, result in results.items():
        if isinstance(result, str):
            raise SystemExit(f"bench/compare: {name} {result}")
    return results


def memory(args, settings):
    seen = sound(measure_idle(echoes(args), settings))
    return {side: {"idle kB": seen[side].started, "after a call kB": seen[side].called_once} for side in SIDES}


def load(era):
    def measure(args, settings):
        seen = sound(measure_load(echoes(args), era, settings))
        return {side: {f"µs CPU, {shape.name}": seen[side].cpu_micros[shape] for shape in SHAPES} for side in SIDES}

    return measure


def stdio(args, settings):
    seen = sound(measure_floods(echoes(args), settings))
    return {
        side: {
            f"{figure}, {client} client": getattr(flood, name)
            for client, flood in seen[side].items()
            for figure, name in (("µs CPU", "cpu_micros"), ("peak kB", "high_water"))
        }
        for side in SIDES
    }


def start(args, settings):
    seen = sound(measure_starts(echoes(args)))
    return {side: {"ms to the first list": [seconds * 1e3 for seconds in seen[side]]} for side in SIDES}


def host(args, settings):
    return in_turn(args, settings, measure_host, host_figures)


def host_figures(seen):
    figures = {"idle kB": seen.idle_kb, "after the first list kB": seen.listed_kb}
    figures["ms to the first list"] = [statistics.median(seen.starts) * 1e3]
    for kind in CALLS:
        if kind not in ("bash", "rg"):
            figures[f"µs, {kind}"] = [statistics.median(seen.calls[kind]) * 1e6]
    for kind, seconds in seen.cpu.items():
        figures[f"µs CPU, {kind}"] = [value * 1e6 for value in seconds]
    return figures


def proxy(args, settings):
    return in_turn(args, settings, measure_proxy, proxy_figures)


def proxy_figures(seen):
    return {
        "private kB": seen.private_kb,
        "µs, a call through it": [statistics.median(seen.through) * 1e6],
        "kB, ten sessions of one server": seen.shared_kb,
        "kB, ten servers": seen.separate_kb,
    }


def in_turn(args, settings, measure, figures):
    """One round of each build after the other, as often as there are rounds."""
    all_rounds = {side: {} for side in SIDES}
    for number in range(settings.rounds):
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            seen = sound(measure(binary(args, side), replace(settings, rounds=1)))["lmcp"]
            for name, values in figures(seen).items():
                all_rounds[side].setdefault(name, []).extend(values)
    return all_rounds


def sessions(args, side, settings):
    try:
        seen = measure_sessions(binary(args, side), HANDSHAKES, STREAMS)
    except (Failed, OSError) as error:
        raise SystemExit(f"bench/compare: {side}: {error}") from error
    return {"kB after handshakes": [seen.after], "kB with streams open": [seen.open_after]}


WAYS = {
    "memory": memory,
    "http": load(wire.MODERN),
    "legacy": load(wire.LEGACY),
    "stdio": stdio,
    "start": start,
    "host": host,
    "proxy": proxy,
    "sessions": sessions,
}
# Measured one build at a time.
SOLO = ("sessions",)


def parse():
    parser = argparse.ArgumentParser(prog="bench/compare", description="Measure two builds of lmcp in turn.")
    parser.add_argument("old", type=build, help="a folder that `./dist lmcp echo` built into (target/shipped)")
    parser.add_argument("new", type=build, help="another one")
    parser.add_argument("--rounds", type=positive, default=5, help="rounds of each (default: 5)")
    parser.add_argument("--seconds", type=positive, default=2, help="seconds of HTTP load per round and shape (default: 2)")
    parser.add_argument("--only", choices=SECTIONS, nargs="+", help="some sections instead of all")
    parser.add_argument("--tolerance", type=float, default=1.03, help="the ratio above which it exits with 1 (default: 1.03)")
    return parser.parse_args()


def build(text):
    path = Path(text).resolve()
    for name in ("lmcp", "examples/echo"):
        if not (path / name).is_file():
            raise argparse.ArgumentTypeError(f"there is no `{name}` in `{text}`")
    return path
