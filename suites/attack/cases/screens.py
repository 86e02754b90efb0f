"""Terminals that are costly to draw, and other long steps: they take nobody else's threads, nor memory that is not counted."""

import threading

from harness.case import case, check
from harness.world import token_of

from .memory import judge, serve
from .tools import serve_callers

# A few bytes of this ask for many letters, lines and scrolls. It says when all of it is there.
COSTLY = r"printf '\e[65000b\e[9999L\e[9999M\e[9999@a\xcc\x81%.0s' $(seq 20000); printf 'all there'; exec sleep 300"


def start_costly_job(caller):
    job = caller.call("shell_bg", command=COSTLY, tty=True, rows=500, cols=500).data["id"]
    caller.call("job_output", id=job, wait_for="all there", wait=30, view="raw")
    return job


class Crowd:
    """So many calls at once, each from a thread of its own, which makes `rounds` of them one after the other."""

    def __init__(self, server, token, count, tool, rounds=1, **arguments):
        self.answers = []
        self.begun, self.over = threading.Event(), threading.Event()
        self.threads = [
            threading.Thread(target=self.call, args=(server.caller(token), tool, rounds, arguments)) for _ in range(count)
        ]
        for thread in self.threads:
            thread.start()

    def call(self, caller, tool, rounds, arguments):
        for _ in range(rounds):
            try:
                self.answers.append(caller.call(tool, **arguments).text)
            except Exception as error:  # Whatever a server does that has no room left.
                self.answers.append(f"no answer: {error!r}")
            self.begun.set()
            if self.over.is_set():
                return

    def stop(self):
        """Lets each thread end with the call that it is making."""
        self.over.set()
        self.wait()

    def wait(self):
        for thread in self.threads:
            thread.join()
        return self.answers


# Where each call of another waits for the 60 screens asked for before it, its six calls outlast all of these.
ROUNDS = 5


@case("D27", "long steps of one caller leave threads for the others", alone=True, limit=180)
def screens_of_one_caller_hold_up_nobody(cx):
    server = serve(cx, tokens=("ann", "bob"))
    ann, bob = token_of("ann"), server.caller(token_of("bob"))
    job = start_costly_job(server.caller(ann))
    crowd = Crowd(server, ann, 60, "job_output", rounds=ROUNDS, id=job, view="screen")
    check(crowd.begun.wait(60), "no screen was drawn")
    for _ in range(3):
        check("hi" in bob.call("shell", command="echo hi").text, "the command of another caller was not run")
        check(not bob.call("jobs").refused, "another caller cannot list its jobs")
    drawn = len(crowd.answers)
    cx.note(f"{drawn} screens were drawn meanwhile")
    check(drawn < 60 * ROUNDS, "all screens were drawn before another caller had its answers")
    crowd.stop()


@case("D5", "screens of terminals are part of the budget", limit=180)
def screens_stay_in_the_budget(cx):
    server = serve_callers(cx)
    job = start_costly_job(server.caller(token_of("ann")))
    Crowd(server, token_of("ann"), 40, "job_output", id=job, view="screen").wait()
    judge(cx, server, "40 screens of 500 rows and columns")


@case("D5", "a path of any length is not repeated in an answer", limit=120)
def long_paths_stay_in_the_budget(cx):
    server = serve_callers(cx)
    for arguments in ({"paths": ["a" * 125_000] * 60}, {"paths": ["a"] * 1_000_000}, {"path": "a" * 7_500_000}):
        answers = Crowd(server, token_of("bob"), 4, "read_file", **arguments).wait()
        longest = max(len(answer) for answer in answers)
        check(longest < 20_000, f"an answer about paths has {longest} characters")
    for tool, name in (("job_output", "id"), ("search_files", "pattern"), ("list_dir", "path"), ("job_stop", "id")):
        answer = server.caller(token_of("eve")).call(tool, **{name: "(" * 7_500_000}).text
        check(len(answer) < 20_000, f"an error of {tool} has {len(answer)} characters")
    judge(cx, server, "paths of megabytes")
