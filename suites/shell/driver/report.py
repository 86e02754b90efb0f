"""What people and programs get to read of a run."""

import json
import textwrap

from .runner import CANNOT, FAILED, PASSED

WORDS = {PASSED: "ok", FAILED: "FAIL", CANNOT: "cannot"}


def line(outcome):
    """One case, as it ends."""
    text = f"{WORDS[outcome.verdict]:6} {outcome.case.topic}/{outcome.case.name} ({outcome.seconds:.1f} s)"
    if outcome.verdict == PASSED:
        return text
    if outcome.verdict == CANNOT:
        return f"{text}: {outcome.message}"
    why = textwrap.indent(f"{outcome.message}\nwhy: {outcome.case.why}", " " * 9)
    return f"{text}\n{why}"


def table(outcomes):
    """Verdicts by topic."""
    topics = list(dict.fromkeys(outcome.case.topic for outcome in outcomes))
    rows = [(topic, *counts([o for o in outcomes if o.case.topic == topic])) for topic in topics]
    rows.append(("all", *counts(outcomes)))
    lines = ["| topic | passed | failed | cannot |", "| --- | ---: | ---: | ---: |"]
    return "\n".join([*lines, *(f"| {topic} | {ok} | {bad} | {cannot} |" for topic, ok, bad, cannot in rows)])


def counts(outcomes):
    verdicts = [outcome.verdict for outcome in outcomes]
    return verdicts.count(PASSED), verdicts.count(FAILED), verdicts.count(CANNOT)


def last_line(outcomes):
    return "{} passed, {} failed, {} skipped".format(*counts(outcomes))


def as_json(outcomes, head):
    cases = [
        {
            "name": outcome.case.name,
            "topic": outcome.case.topic,
            "why": outcome.case.why,
            "peers": outcome.case.peers,
            "verdict": outcome.verdict,
            "message": outcome.message,
            "seconds": round(outcome.seconds, 2),
        }
        for outcome in outcomes
    ]
    passed, failed, skipped = counts(outcomes)
    return json.dumps(head | {"passed": passed, "failed": failed, "skipped": skipped, "cases": cases}, indent=2) + "\n"


def catalogue(cases):
    """For --list: every case with its reason."""
    lines = []
    for case in cases:
        lines.append(f"{case.topic}/{case.name}")
        lines.append(f"    {case.why}" + (f" [{case.peers}]" if case.peers else ""))
    return "\n".join(lines)
