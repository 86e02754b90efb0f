"""A task: how a model does it with each server, and what must be true afterwards."""

import re
import time

from .session import Failed, running_in


class Task:
    """One method per server with its calls, each the best that server has for it; one that is missing means: impossible.

    The first line of the documentation is what the model is asked for.
    """

    # Texts that the model must have seen.
    shows = ()

    def check(self, session):
        """Looks at the files and processes themselves."""

    def finish(self, session):
        missing = [text for text in self.shows if text not in session.seen]
        if missing:
            raise Failed(f"the model has not seen {missing[0]!r}")
        self.check(session)


def expect(condition, why):
    if not condition:
        raise Failed(why)


def found(pattern, answer):
    """What a model reads out of an answer: the first group of a pattern."""
    match = re.search(pattern, answer.text)
    expect(match, f"the answer says nothing of {pattern}: {answer.text[:200]!r}")
    return match[1]


def job(answer):
    return found(r"\bjob (\w{8,})", answer)


def pid(answer):
    return int(found(r"PID (\d+)", answer))


def expect_text(session, name, text):
    at = session.folder / name
    expect(at.exists(), f"{name} is missing")
    expect(text in at.read_text(), f"{text!r} is not in {name}")


def expect_nothing_running(session):
    """Soon: some servers answer before all has ended."""
    end = time.monotonic() + 5
    while left := [pid for pid in running_in(session.folder) if pid != session.child.pid]:
        expect(time.monotonic() < end, f"{len(left)} processes still run")
        time.sleep(0.05)
