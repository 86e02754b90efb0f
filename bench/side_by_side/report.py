"""The section of RESULTS.md that `bench/tasks` owns: between two marks, so that the rest stays as it is."""

from statistics import median

MARKS = ("<!-- tasks: written by bench/tasks -->", "<!-- tasks: end -->")
PEERS = ("commander", "filesystem")
# Bytes to the model, beside the better peer.
TARGET = 0.7


def section(results, offered, names):
    rows = [["task", *(names[name] for name in names), "bytes beside the better"], ["---"] + ["--:"] * (len(names) + 1)]
    for task, done in results.items():
        best = better(done)
        ratio = f"{done['lmcp'].bytes / best.bytes:.2f}" if best and best.bytes and not done["lmcp"].why else "–"
        rows.append([words(task), *(told(done[name]) for name in names), ratio])
    parts = [
        MARKS[0],
        "## The same 30 tasks with other servers",
        "Written by `bench/tasks`: calls that a model makes, and bytes of text that it is shown, at most 50 KB a call. A server's "
        "tools are used as well as they can be: where its own tool is worse than a command, a command is run. Images are "
        "not counted.",
        "\n".join(f"| {' | '.join(row)} |" for row in rows),
        summary(results, offered, names),
    ]
    missed = misses(results)
    if missed:
        parts.append("Where a peer needs fewer calls, or shows fewer bytes:\n\n" + "\n".join(missed))
    return "\n\n".join([*parts, MARKS[1]]) + "\n"


def words(task):
    return task.__doc__.splitlines()[0]


def told(done):
    if done.why:
        return f"{done.why} ({done.calls} calls)" if done.calls else done.why
    return f"{done.calls}, {done.bytes:,} B"


def better(done):
    """That of the peers which did it with fewer bytes; none, if none did it."""
    return min((done[name] for name in PEERS if not done[name].why), key=lambda one: one.bytes, default=None)


def summary(results, offered, names):
    def line(name):
        did = [done[name] for done in results.values() if not done[name].why]
        count, size = offered[name]
        figures = f"{len(did)} of {len(results)} tasks, {sum(done.calls for done in did)} calls, {sum(done.bytes for done in did):,} B"
        return f"- {names[name]}: {figures}; {count} tools, told of in {size:,} B"

    lines = [line(name) for name in names]
    for peer in PEERS:
        both = [done for done in results.values() if not done[peer].why and not done["lmcp"].why]
        calls = sum(done["lmcp"].calls for done in both), sum(done[peer].calls for done in both)
        size = sum(done["lmcp"].bytes for done in both), sum(done[peer].bytes for done in both)
        if both:
            part = f"{calls[0]} calls and {size[0]:,} B, {names[peer]} {calls[1]} and {size[1]:,} B"
            lines.append(f"- Of the {len(both)} tasks that both did: lmcp {part}: {size[0] / max(size[1], 1):.2f} of the bytes")
    both = [(done["lmcp"], better(done)) for done in results.values() if better(done) and not done["lmcp"].why]
    if both:
        ours, theirs = sum(mine.bytes for mine, _ in both), sum(best.bytes for _, best in both)
        ratios = sorted(mine.bytes / best.bytes for mine, best in both if best.bytes)
        helps_most = max(both, key=lambda pair: TARGET * pair[1].bytes - pair[0].bytes)
        rest = (ours - helps_most[0].bytes) / max(theirs - helps_most[1].bytes, 1)
        verdict = "met" if ours <= TARGET * theirs else "MISSED"
        lines.append(f"- **{verdict}** bytes beside the better peer of each task: {ours / theirs:.2f}, target ≤ {TARGET}")
        lines.append(f"- Without the task that helps most, that is {rest:.2f}; the median of the tasks is {median(ratios):.2f}")
        more = [task for task, done in results.items() if has_more_calls(done)]
        lines.append(f"- **{'MISSED' if more else 'met'}** no task needs more calls than with a peer" + (f": {len(more)} do" if more else ""))
    return "\n".join(lines)


def has_more_calls(done):
    fewest = min((done[name].calls for name in PEERS if not done[name].why), default=None)
    return fewest is not None and (done["lmcp"].why or done["lmcp"].calls > fewest)


def misses(results):
    lines = []
    for task, done in results.items():
        best, mine = better(done), done["lmcp"]
        if mine.why:
            lines.append(f"- {words(task)}: {mine.why}")
        elif best and (mine.bytes > best.bytes or has_more_calls(done)):
            lines.append(f"- {words(task)}: {told(mine)}; the better one {told(best)}")
    return lines


def put_section(path, text, marks):
    """Puts the section behind all else in the file, in the place of the one that is there."""
    rest = path.read_text().replace(section_in(path, marks), "").rstrip("\n")
    path.write_text(f"{rest}\n\n{text}")


def section_in(path, marks):
    """The section between these marks that the file has now; empty, if it has none."""
    text = path.read_text() if path.exists() else ""
    begin, end = (text.find(mark) for mark in marks)
    return text[begin : end + len(marks[1])] + "\n" if 0 <= begin < end else ""
