"""Draws four figures of RESULTS.md as bars, side by side: results.svg."""

import re
from pathlib import Path
from xml.sax.saxutils import escape

# A heading of RESULTS.md, the first cell of a table below it, the column, and what the figure is called.
FIGURES = [
    ("HTTP, `tools/call` of echo, 2026-07-28", "c=32", 1, "requests a second, 32 at once (more is better)"),
    ("HTTP, `tools/call` of echo, 2026-07-28", "c=32", 2, "CPU µs a request, 32 at once (less is better)"),
    ("Idle HTTP server", "server", 2, "memory of an idle server after one call, MB (less is better)"),
    ("HTTP, `tools/call` of echo, 2026-07-28", "after the load", 1, "memory after the load, MB (less is better)"),
]
WIDTH, LEFT, BAR, GAP = 860, 140, 18, 6
PANEL = 210


def rows(text: str, heading: str, first: str, column: int) -> list[tuple[str, float]]:
    """The servers of one table, each with the number in that column."""
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    section = next(part for part in section if part.startswith(heading))
    table = next(part for part in section.split("\n\n") if part.startswith(f"| {first} |"))
    found = []
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        number = re.match(r"[\d,.]+", cells[column])
        found.append((cells[0], float(number.group().replace(",", ""))))
    return found


def panel(x: int, y: int, title: str, bars: list[tuple[str, float]]) -> list[str]:
    """One figure, with a bar for each server."""
    most = max(value for _, value in bars)
    out = [f'<text class="title" x="{x}" y="{y}">{escape(title)}</text>']
    for place, (name, value) in enumerate(bars):
        top = y + 12 + place * (BAR + GAP)
        long = max(2, round(PANEL * value / most))
        kind = "ours" if name == "lmcp" else "other"
        shown = f"{value:,.0f}" if value >= 1000 else f"{value:g}"
        out.append(f'<text x="{x}" y="{top + 13}">{escape(name)}</text>')
        out.append(f'<rect class="{kind}" x="{x + LEFT}" y="{top}" width="{long}" height="{BAR}"/>')
        out.append(f'<text x="{x + LEFT + long + 6}" y="{top + 13}">{shown}</text>')
    return out


def draw(results: Path) -> None:
    """Writes results.svg beside RESULTS.md."""
    text = results.read_text()
    out, y = [], 24
    for at in range(0, len(FIGURES), 2):
        pair = [(title, rows(text, heading, first, column)) for heading, first, column, title in FIGURES[at : at + 2]]
        for side, (title, bars) in enumerate(pair):
            out += panel(10 + side * WIDTH // 2, y, title, bars)
        y += 44 + max(len(bars) for _, bars in pair) * (BAR + GAP)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - 16}" font-family="sans-serif" font-size="12"'
    style = "text{fill:#1f2328}text.title{font-weight:bold}rect.other{fill:#8c959f}rect.ours{fill:#0969da}"
    label = ' role="img" aria-label="lmcp beside bare hyper and rmcp: speed and memory">'
    background = f'<rect width="{WIDTH}" height="{y - 16}" fill="#ffffff"/>'
    parts = [head + label, f"<style>{style}</style>", background, *out, "</svg>", ""]
    (results.parent / "results.svg").write_text("\n".join(parts))
