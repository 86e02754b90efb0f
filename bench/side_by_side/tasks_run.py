"""Tasks that run programs, which server-filesystem cannot."""

from .task import Task, expect, expect_nothing_running, expect_text, found, job, pid

TESTS = "python3 -m unittest discover -s tests"
# The model waits as long as the server needs to say something, and no longer than this.
SOON = 1


class FixTests(Task):
    """Run the tests, find out why one fails, mend it, run them again"""

    shows = ("FAILED (failures=1)", "def with_discount", "OK")
    wrong, right = "return total - total // 100\n", "return total - total // 10\n"

    def lmcp(self, s):
        s.call("shell", command=TESTS)
        s.call("read_file", path="src/shop/prices.py")
        s.call("edit_file", path="src/shop/prices.py", old_string=self.wrong, new_string=self.right)
        s.call("shell", command=TESTS)

    def commander(self, s):
        s.call("start_process", command=TESTS, timeout_ms=10000)
        s.call("read_file", path=s.path("src/shop/prices.py"))
        s.call("edit_block", file_path=s.path("src/shop/prices.py"), old_string=self.wrong, new_string=self.right)
        s.call("start_process", command=TESTS, timeout_ms=10000)

    def check(self, session):
        expect_text(session, "src/shop/prices.py", self.right)


class ChattyBuild(Task):
    """Run a build that writes 5 MB: did it finish, and what did it warn of?"""

    shows = ("build finished", "unused variable 'stock'")

    def lmcp(self, s):
        ran = s.call("shell", command="python3 scripts/build.py")
        expect("build finished" in ran.text, "the end is missing")
        s.call("job_output", id=found(r"job://(\w+)/|job (\w{8,})", ran), search="warning")

    def commander(self, s):
        ran = s.call("start_process", command="python3 scripts/build.py", timeout_ms=20000)
        if "build finished" not in ran.text:
            again = "python3 scripts/build.py > build.log 2>&1; tail -n 3 build.log; grep -n warning build.log"
            s.call("start_process", command=again, timeout_ms=20000)


class DevServer(Task):
    """Start the development server, ask it for a page, stop it"""

    shows = ("hello from the shop",)

    def lmcp(self, s):
        started = s.call("shell", command="python3 scripts/server.py", yield_after=SOON)
        s.call("shell", command=f"curl -s {url(started)}")
        s.call("job_stop", id=job(started))

    def commander(self, s):
        started = s.call("start_process", command="python3 scripts/server.py", timeout_ms=SOON * 1000)
        s.call("start_process", command=f"curl -s {url(started)}", timeout_ms=5000)
        s.call("force_terminate", pid=pid(started))

    def check(self, session):
        expect_nothing_running(session)


class Repl(Task):
    """Compute in Python's own prompt, one line after the other"""

    shows = ("4242", "8485")
    first, second = "value = 21 * 202; print(value)", "print(value * 2 + 1)"

    def lmcp(self, s):
        id = job(s.call("shell_bg", command="python3 -iuq"))
        for line, wait in ((self.first, "4242"), (self.second, "8485")):
            type_line(s, id, line, wait)
        s.call("job_stop", id=id)

    def commander(self, s):
        number = pid(s.call("start_process", command="python3 -iuq", timeout_ms=5000))
        for line in (self.first, self.second):
            s.call("interact_with_process", pid=number, input=line)
        s.call("force_terminate", pid=number)

    def check(self, session):
        expect_nothing_running(session)


class StopTree(Task):
    """Start a script that starts others, and stop all of them"""

    def lmcp(self, s):
        s.call("job_stop", id=job(s.call("shell_bg", command="sh scripts/tree.sh")))

    def commander(self, s):
        s.call("force_terminate", pid=pid(s.call("start_process", command="sh scripts/tree.sh", timeout_ms=SOON * 1000)))

    def check(self, session):
        expect_nothing_running(session)


class Prompt(Task):
    """Run a script that asks, and answer what it asks"""

    shows = ("Name of the shop?", "[y/N]", "written")

    def lmcp(self, s):
        started = s.call("shell", command="python3 scripts/ask.py", tty=True, yield_after=SOON)
        type_line(s, job(started), "Corner", r"\[y/N\]")
        type_line(s, job(started), "y", "written")

    def commander(self, s):
        number = pid(s.call("start_process", command="python3 scripts/ask.py", timeout_ms=SOON * 1000))
        s.call("interact_with_process", pid=number, input="Corner", timeout_ms=2000)
        s.call("interact_with_process", pid=number, input="y", timeout_ms=2000)

    def check(self, session):
        expect_text(session, "shop.name", "Corner")


class InputAndVariables(Task):
    """Run a command in another folder, with a variable and with text to read"""

    shows = ("3 words in parts for me",)
    command = 'echo "$(wc -w) words in ${PWD##*/} for $WHO"'

    def lmcp(self, s):
        s.call("shell", command=self.command, cwd="src/shop/parts", env={"WHO": "me"}, stdin="one two three")

    def commander(self, s):
        line = f"cd src/shop/parts && export WHO=me && echo one two three | sh -c '{self.command}'"
        s.call("start_process", command=line, timeout_ms=5000)


def url(started):
    return "http://127.0.0.1:" + found(r"port (\d+)", started)


def type_line(s, id, line, wait):
    """Types a line into a job and waits for what comes of it: in one call, where that can be done."""
    if s.takes("job_input", "wait_for"):
        s.call("job_input", id=id, text=f"{line}\n", wait_for=wait)
    else:
        s.call("job_input", id=id, text=f"{line}\n")
        s.call("job_output", id=id, wait_for=wait)


TASKS = (FixTests, ChattyBuild, DevServer, Repl, StopTree, Prompt, InputAndVariables)
