"""The section of RESULTS.md that `bench/hop` owns."""

import os
from statistics import median

MARKS = ("<!-- hop: written by bench/hop -->", "<!-- hop: end -->")
ALONE, ONE_CORE, MANY = "c=1", "c=1, one core", "c=32"


def section(gateways, many, args):
    [direct] = [gateway for gateway in gateways if gateway.is_direct]
    rows = [["", "p50, c=1", "added by the hop", "CPU a call", "calls a second, c=32", "memory after"]]
    rows += [["---"] + ["--:"] * 5]
    rows += [row(gateway, direct) for gateway in gateways]
    parts = [
        MARKS[0],
        "## One hop, beside other gateways",
        f"Written by `bench/hop`: `echo` of one and the same server on stdio (`lmcp serve --demo`), 2025-11-25, medians of "
        f"{args.rounds} rounds of {args.seconds} s in turn. Latency and CPU are those with client and gateway on one core, where "
        "waking a sleeping core costs nothing; CPU is that of the gateway alone. What the hop adds is the difference to the same "
        f"server over HTTP. lmcp is built by `{args.built}`; the load of the machine before it was "
        f"{args.load_before:.1f}, on {os.cpu_count()} cores.",
        "\n".join(f"| {' | '.join(cells)} |" for cells in rows),
        f"`lmcp hub` with 20 servers configured, 5 of them dead: {many.rss_kb / 1024:.1f} MB after a call of each of the others; "
        f"start to the first `tools/list` {many.warm_ms:.1f} ms, {many.cold_ms:.0f} ms the first time, when nothing is known of "
        "any server.",
        targets(gateways, direct, many),
    ]
    return "\n\n".join([*parts, MARKS[1]]) + "\n"


def row(gateway, direct):
    if gateway.why:
        return [gateway.name, gateway.why.replace("|", "/")[:120], "", "", "", ""]
    added = "–" if gateway.is_direct else f"{micros(gateway) - micros(direct):,.0f} µs"
    rate, cpu = median(gateway.rate[MANY]), median(gateway.cpu[ONE_CORE])
    return [gateway.name, f"{micros(gateway):,.0f} µs", added, f"{cpu:,.0f} µs", f"{rate:,.0f}", f"{gateway.rss_kb / 1024:.1f} MB"]


def micros(gateway):
    return median(gateway.p50[ONE_CORE])


def targets(gateways, direct, many):
    bridge = next(gateway for gateway in gateways if gateway.name == "lmcp bridge")
    peers = [gateway for gateway in gateways if not gateway.is_direct and "lmcp" not in gateway.name and not gateway.why]
    if bridge.why or direct.why or not peers:
        return "No targets: something above failed."
    best = max(median(peer.rate[MANY]) for peer in peers)
    held = [
        ("added by one hop", micros(bridge) - micros(direct), 100, "µs"),
        ("CPU added by one hop", median(bridge.cpu[ONE_CORE]) - median(direct.cpu[ONE_CORE]), 30, "µs"),
        ("memory with 20 servers", many.rss_kb / 1024, 6, "MB"),
        ("start to the first list with 20 servers", many.warm_ms, 20, "ms"),
    ]
    lines = [f"| {name} | at most {most} {unit} | {value:.1f} {unit} | {'yes' if value <= most else '**no**'} |" for name, value, most, unit in held]
    times = median(bridge.rate[MANY]) / best
    lines.append(f"| throughput beside the best peer | at least 10 times | {times:.1f} times | {'yes' if times >= 10 else '**no**'} |")
    return "\n".join(["| target | | measured | held |", "|---|---|--:|---|", *lines])
