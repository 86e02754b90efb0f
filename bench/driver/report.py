"""Figures to words: the Markdown tables and the verdicts on the project's targets.

A target is judged only by ratios and sizes of the same run.
"""

import os
import platform
import re
from pathlib import Path
from statistics import median

from . import client_load, wire
from .http_load import SHAPES
from .programs import sessionless
from .stdio_load import CALLS, PAUSE, STARTS


def render(programs, clients, results, settings):
    """The whole report; `results` holds the sections that were measured."""
    parts = [opening(settings)]
    if "http" in results:
        parts.append(load_table(programs, results["http"], wire.MODERN))
    if "legacy" in results:
        rmcp = next(program for program in programs if program.name == "rmcp")
        parts.append(load_table([*programs, sessionless(rmcp)], results["legacy"], wire.LEGACY))
    if "sessions" in results:
        parts.append(session_table(of_mcp(programs), results["sessions"]))
    if "memory" in results:
        parts.append(idle_table(programs, results["memory"]))
    if "stdio" in results:
        parts.append(flood_table(programs, results["stdio"]))
    if "start" in results:
        parts.append(start_table(programs, results["start"]))
    if "host" in results:
        parts.append(host_table(results["host"]["lmcp"]))
    if "proxy" in results:
        parts.append(proxy_table(results["proxy"]["lmcp"]))
    if "client" in results:
        parts.append(client_table(clients, results["client"]))
    parts.append(size_table(programs))
    lines = verdicts(results)
    if lines:
        parts.append("## Targets\n\n" + "\n".join(f"- {line}" for line in lines))
    return "\n\n".join(parts) + "\n"


def opening(settings):
    cores = os.cpu_count()
    return (
        "# Results\n\n"
        "Written by `bench/run`; see [README.md](README.md) for what the figures are and are not. "
        "Medians, with the smallest and largest round in brackets; 1 MB = 1024 kB.\n\n"
        f"Rounds: {settings.rounds}, with {settings.seconds} s of load each, interleaved. "
        f"{cores} × {cpu_model()}, Linux {platform.release().split('-')[0]}, "
        f"load average {settings.load_before:.1f} before and {os.getloadavg()[0]:.1f} after."
    )


def load_table(programs, loads, era):
    tables = []
    for shape in SHAPES:

        def cells(load):
            rate, p50 = median(load.rate[shape]), median(load.p50_micros[shape])
            return [f"{rate:,.0f}", spread(load.cpu_micros[shape]), f"{p50:.0f}"]

        head = [shape.name, "requests/s", "CPU µs/request", "p50 µs"]
        tables.append(table(head, programs, loads, cells))

    def after(load):
        kind = {"application/json": "JSON", "text/event-stream": "SSE"}.get(load.answer_type, load.answer_type)
        return [megabytes(load.rss_after_kb), f"{load.answer_bytes} B, {kind}"]

    tables.append(table(["after the load", "RSS", "one answer"], programs, loads, after))
    return f"## HTTP, `tools/call` of echo, {era}\n\n" + "\n\n".join(tables)


def session_table(programs, sessions):
    head = ["server", "handshakes", "RSS before → after", "streams", "RSS before → after", "per stream"]

    def cells(seen):
        made = f"{megabytes(seen.before)} → {megabytes(seen.after)}"
        held = f"{megabytes(seen.open_before)} → {megabytes(seen.open_after)}"
        each = (seen.open_after - seen.open_before) / seen.streams
        return [f"{seen.handshakes:,}", made, f"{seen.streams:,}", held, f"{each:.1f} kB"]

    note = f"Handshakes that nobody ends, and sessions with an open GET stream, {wire.LEGACY}.\n\n"
    return "## Sessions\n\n" + note + table(head, programs, sessions, cells)


def idle_table(programs, idles):
    head = ["server", "RSS after start", "RSS after one call"]

    def cells(idle):
        return [megabytes(median(idle.started)), megabytes(median(idle.called_once))]

    return "## Idle HTTP server\n\n" + table(head, programs, idles, cells)


def flood_table(programs, floods):
    head = ["server", "answers/s", "CPU µs/answer", "peak RSS", "VmHWM", "late client: peak RSS", "late client: VmHWM"]

    def cells(flood):
        reading, late = flood["reading"], flood["late"]
        memory = [reading.sampled_peak, reading.high_water, late.sampled_peak, late.high_water]
        rates = spread([rate / 1000 for rate in reading.rate], " k")
        return [rates, spread(reading.cpu_micros), *(megabytes(max(values)) for values in memory)]

    title = f"## stdio, {CALLS:,} calls of echo written at once, {wire.MODERN}\n\n"
    note = f"Memory is the worst round. The late client reads nothing for its first {PAUSE} s.\n\n"
    return title + note + table(head, of_mcp(programs), floods, cells)


def start_table(programs, starts):
    head = ["server", "median ms", "fastest ms", "slowest ms"]

    def cells(seconds):
        return [f"{value * 1000:.2f}" for value in (median(seconds), min(seconds), max(seconds))]

    title = f"## stdio, exec to the first `tools/list` answer, {STARTS} starts\n\n"
    return title + table(head, of_mcp(programs), starts, cells)


def host_table(seen):
    title = "## `lmcp serve`, with all tools of a host\n\n"
    if isinstance(seen, str):
        return title + f"lmcp {seen}."
    millis = lambda values: f"{median(values) * 1000:.2f} ms"  # noqa: E731  (one expression)
    calls, cpu = seen.calls, seen.cpu
    rows = [
        ["binary", megabytes(seen.size_bytes / 1024), "", ""],
        ["RSS idle, over HTTP", megabytes(median(seen.idle_kb)), "", ""],
        ["RSS after the first list, on stdio", megabytes(median(seen.listed_kb)), "", ""],
        ["exec to `tools/list`", millis(seen.starts), "", ""],
        ["`read_file` of 4 KB", millis(calls["read_file"]), "echo of that text " + millis(calls["echo"]), times(calls, "read_file", "echo")],
        ["… CPU of the server", millis(cpu["read_file"]), "echo of that text " + millis(cpu["echo"]), times(cpu, "read_file", "echo")],
        ["`edit_file`, a line of 4 KB", millis(calls["edit_file"]), "", ""],
        ["`write_file` of 4 KB, in place of another", millis(calls["write_file"]), "", ""],
        ["`shell` of `echo hi`", millis(calls["shell"]), "`bash -c` " + millis(calls["bash"]), times(calls, "shell", "bash")],
        ["`search_files`, 12,000 files", millis(calls["search_files"]), "`rg` " + millis(calls["rg"]), times(calls, "search_files", "rg")],
    ]
    head = [["what", "lmcp", "beside it", "ratio"], ["---", "--:", "--:", "--:"]]
    return title + "\n".join("| " + " | ".join(row) + " |" for row in head + rows)


def times(values, ours, theirs):
    return f"{median(values[ours]) / median(values[theirs]):.2f}"


def host_verdicts(seen):
    if isinstance(seen, str):
        return [f"**no verdict** on the tools of a host: lmcp {brief(seen)}"]
    start = median(seen.starts) * 1000
    lines = [
        at_most("RSS of `lmcp serve`, idle", seen, lambda host: median(host.idle_kb), 4),
        f"**{'met' if start <= 5 else 'MISSED'}** exec to `tools/list` with all tools: {start:.2f} ms, target ≤ 5 ms",
    ]
    for ours, theirs, limit in (("read_file", "echo", 2), ("search_files", "rg", 1.3)):
        seen_ratio = median(seen.calls[ours]) / median(seen.calls[theirs])
        met = "met" if seen_ratio <= limit else "MISSED"
        lines.append(f"**{met}** {ours}: {seen_ratio:.2f} × {theirs}, target ≤ {limit}")
    return lines


def proxy_table(seen):
    title = "## `lmcp proxy`, on a unix socket\n\n"
    if isinstance(seen, str):
        return title + f"lmcp {seen}."
    micros = lambda values: f"{median(values) * 1e6:.0f} µs"  # noqa: E731  (one expression)
    added = median(seen.through) - median(seen.direct)
    shared, separate = median(seen.shared_kb), median(seen.separate_kb)
    rows = [
        ["private memory of a proxy", megabytes(median(seen.private_kb)), "RSS " + megabytes(median(seen.rss_kb)), ""],
        ["one call after another, through a proxy", micros(seen.through), "server on stdio " + micros(seen.direct), f"+{added * 1e6:.0f} µs"],
        ["ten proxies and one server, PSS", megabytes(shared), "ten servers " + megabytes(separate), f"{shared / separate:.2f}"],
    ]
    head = [["what", "lmcp", "beside it", "ratio"], ["---", "--:", "--:", "--:"]]
    return title + "\n".join("| " + " | ".join(row) + " |" for row in head + rows)


def client_table(clients, results):
    tables = []
    for way in client_load.WAYS:
        for at_once in client_load.SHAPES:
            shape = (way, at_once)

            def cells(called):
                rates = f"{median(called.rate[shape]):,.0f}"
                return [rates, spread(called.cpu_micros[shape]), megabytes(median(called.rss_kb[shape]))]

            name = f"{way}, {at_once} at once"
            tables.append(table([name, "calls/s", "CPU µs/call", "RSS after"], clients, results, cells))
    note = f"{client_load.CALLS:,} calls of echo to the same server, lmcp's; the figures are of the client alone.\n\n"
    return f"## Clients, {wire.MODERN}\n\n" + note + "\n\n".join(tables)


def client_verdicts(results):
    for way in client_load.WAYS:
        for at_once in client_load.SHAPES:
            cpu = numbers(results, lambda called: called.cpu_micros[way, at_once])
            peers = {name: value for name, value in cpu.items() if name != "lmcp" and not isinstance(value, str)}
            best = min(peers, key=peers.get, default="rmcp")
            yield ratio(f"CPU/call of the client, {way}, {at_once} at once", cpu, best, "≤", 0.25)


def size_table(programs):
    head = ["server", "static binary", "crates linked"]
    present = {program.name: f"skipped: {program.missing}" if program.missing else program for program in programs}

    def cells(program):
        return [megabytes(program.size() / 1024), str(program.crates or "unknown")]

    return "## Programs\n\n" + table(head, programs, present, cells)


def verdicts(results):
    """One line per target that this run can say something about."""
    lines = []
    if "http" in results:
        # One free connection is in the table only: where the scheduler puts it decides its figure.
        _, one_core, busy = SHAPES
        limits = [("bare-hyper", one_core, 1.5), ("bare-hyper", busy, 1.5), ("rmcp", busy, 0.25)]
        for peer, shape, limit in limits:
            cpu = numbers(results["http"], lambda load: load.cpu_micros[shape])
            lines.append(ratio(f"CPU/request at {shape.name}", cpu, peer, "≤", limit))
    if "legacy" in results:
        busy = SHAPES[-1]
        cpu = numbers(results["legacy"], lambda load: load.cpu_micros[busy])
        for peer in ("rmcp", "rmcp, no session"):
            lines.append(ratio(f"CPU/request at {busy.name} in a session", cpu, peer, "≤", 0.33))
    if "sessions" in results:
        growth = lambda seen: seen.after - seen.before  # noqa: E731  (one expression, used once)
        lines.append(at_most("RSS gained by handshakes that nobody ends", results["sessions"]["lmcp"], growth, 4))
    if "stdio" in results:
        rates = numbers(results["stdio"], lambda flood: flood["reading"].rate)
        lines.append(ratio("stdio answers/s", rates, "rmcp", "≥", 5))
        lines.append(at_most("RSS in the flood, either client", results["stdio"]["lmcp"], worst_flood, 6))
    if "memory" in results:
        lines.append(at_most("idle RSS", results["memory"]["lmcp"], lambda idle: median(idle.started), 2))
    if "host" in results:
        lines += host_verdicts(results["host"]["lmcp"])
    if "proxy" in results:
        lines.append(at_most("private memory of a proxy", results["proxy"]["lmcp"], lambda seen: median(seen.private_kb), 1))
    if "client" in results:
        lines += client_verdicts(results["client"])
    if "start" in results:
        lines.append(ratio("exec to list", numbers(results["start"], list), "rmcp", "≤", 1))
    return lines


def numbers(section, values):
    """Program name → median of its `values`, or still the sentence that says why there is none."""
    return {name: result if isinstance(result, str) else median(values(result)) for name, result in section.items()}


def ratio(what, values, peer, relation, limit):
    """`values` holds a number per program, or the sentence that says why there is none."""
    target = f"target {relation} {limit} × {peer}"
    for name in ("lmcp", peer):
        if isinstance(values[name], str):
            return f"**no verdict** {what}, {target}: {name} {brief(values[name])}"
    seen = values["lmcp"] / values[peer]
    met = seen <= limit if relation == "≤" else seen >= limit
    return f"**{'met' if met else 'MISSED'}** {what}: {seen:.2f} × {peer}, {target}"


def at_most(what, result, kilobytes, limit):
    if isinstance(result, str):
        return f"**no verdict** {what}, target ≤ {limit} MB: lmcp {brief(result)}"
    seen = kilobytes(result)
    return f"**{'met' if seen <= limit * 1024 else 'MISSED'}** {what}: {megabytes(seen)}, target ≤ {limit} MB"


def brief(why):
    """`skipped` or `failed`; the tables have the rest of the sentence."""
    return re.match(r"\w+", why)[0]


def worst_flood(flood):
    return max(max(client.sampled_peak + client.high_water) for client in flood.values())


def of_mcp(programs):
    return [program for program in programs if program.speaks_mcp]


def table(head, programs, results, cells):
    """One row per program; a program without figures says why instead."""
    rows = [head, ["---"] + ["--:"] * (len(head) - 1)]
    for program in programs:
        result = results[program.name]
        if isinstance(result, str):
            why = result.replace("|", "\\|").replace("\n", " ")
            rows.append([program.label, why] + ["–"] * (len(head) - 2))
        else:
            rows.append([program.label, *cells(result)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def spread(values, unit=""):
    return f"{median(values):.1f}{unit} ({min(values):.1f}–{max(values):.1f})"


def megabytes(kilobytes):
    return f"{kilobytes / 1024:.2f} MB"


def cpu_model():
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()
