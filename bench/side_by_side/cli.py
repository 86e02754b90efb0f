"""The command line of `bench/tasks`: does the tasks, says what happened, writes the section."""

import argparse
import filecmp
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import project, tasks_change, tasks_find, tasks_run
from .report import MARKS, put_section, section
from .session import Failed, Session

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOOLS = ROOT / ".tools" / "bench" / "side_by_side"
RESULTS = HERE.parent / "RESULTS.md"
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
TASKS = (*tasks_find.TASKS, *tasks_change.TASKS, *tasks_run.TASKS)


@dataclass
class Done:
    """How a task went with one server; `why` if it was not done."""

    calls: int = 0
    bytes: int = 0
    why: str = ""


def main():
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("tasks: ended by a signal"))
    install()
    lmcp = Path(args.lmcp).resolve() if args.lmcp else build()
    chosen = [task for task in TASKS if not args.only or task.__name__ in args.only]
    servers = {"lmcp": start_lmcp(lmcp), "commander": start_commander, "filesystem": start_filesystem}
    offered = {name: listed(start) for name, start in servers.items()}
    results = {}
    for task in chosen:
        results[task] = {name: do(task(), name, start, args.verbose) for name, start in servers.items()}
        said = (f"{name} {done.why or f'{done.calls} calls, {done.bytes:,} B'}" for name, done in results[task].items())
        print(f"{task.__name__}: {'; '.join(said)}", flush=True)
    text = section(results, offered, versions(lmcp))
    print(f"\n{text}")
    if not args.only:
        put_section(RESULTS, text, MARKS)
    return 1 if any(done["lmcp"].why for done in results.values()) else 0


def parse():
    parser = argparse.ArgumentParser(prog="bench/tasks", description="Do the same tasks with several servers.")
    parser.add_argument("--lmcp", metavar="PROGRAM", help="this binary, instead of one that is built now")
    parser.add_argument("--verbose", action="store_true", help="show what the model is shown")
    parser.add_argument("only", nargs="*", metavar="TASK", help="only these, such as Tree; nothing is written then")
    return parser.parse_args()


def do(task, name, start, verbose):
    script = getattr(task, name, None)
    if script is None:
        return Done(why="impossible")
    with tempfile.TemporaryDirectory(prefix="tasks-", ignore_cleanup_errors=True) as scratch:
        # Paths are short, so that they weigh little in what is counted.
        folder, home = Path(scratch).resolve() / "shop", Path(scratch).resolve() / "home"
        folder.mkdir()
        home.mkdir()
        project.make(folder)
        with start(folder, home) as session:
            try:
                script(session)
                task.finish(session)
                why = ""
            except Failed as failed:
                why = f"failed: {failed}"
        if verbose:
            for answer in session.answers:
                print(f"--- {name}: {len(answer.text.encode())} B{', error' if answer.is_error else ''}\n{answer.text[:3000]}")
        return Done(len(session.answers), sum(len(answer.text.encode()) for answer in session.answers), why)


def start_lmcp(program):
    return lambda folder, home: Session([program, "serve", "--stdio"], folder, {"HOME": str(home)})


def start_commander(folder, home):
    settings = home / ".claude-server-commander/config.json"
    settings.parent.mkdir()
    # With bash, a command that it ends is the command itself, and not a shell that leaves it behind.
    chosen = {"telemetryEnabled": False, "allowedDirectories": [str(folder)], "defaultShell": "/bin/bash"}
    settings.write_text(json.dumps(chosen))
    program = TOOLS / "node_modules/@wonderwhy-er/desktop-commander/dist/index.js"
    return Session(["node", program, "--no-onboarding"], folder, {"HOME": str(home)})


def start_filesystem(folder, home):
    program = TOOLS / "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
    return Session(["node", program, folder], folder, {"HOME": str(home)})


def listed(start):
    """The tools as a model is told of them: how many, and bytes of names, descriptions and arguments."""
    with tempfile.TemporaryDirectory(prefix="tasks-") as scratch:
        folder, home = Path(scratch).resolve() / "shop", Path(scratch).resolve() / "home"
        folder.mkdir()
        home.mkdir()
        with start(folder, home) as session:
            told = [{key: tool.get(key) for key in ("name", "description", "inputSchema")} for tool in session.tools]
    return len(told), len(json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode())


def versions(lmcp):
    named = json.loads((HERE / "package.json").read_text())["dependencies"]
    said = subprocess.run([lmcp, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    commander, filesystem = named["@wonderwhy-er/desktop-commander"], named["@modelcontextprotocol/server-filesystem"]
    return {
        "lmcp": f"lmcp {said[1]}",
        "commander": f"Desktop Commander {commander}",
        "filesystem": f"server-filesystem {filesystem}",
    }


def install():
    """Installs the peers, unless they have been in the same versions already. None of them needs its install scripts."""
    locks, done = ("package.json", "package-lock.json"), TOOLS / "installed"
    if done.exists() and sorted(locks) == sorted(filecmp.cmpfiles(HERE, TOOLS, locks, shallow=False)[0]):
        return
    if shutil.which("npm") is None:
        sys.exit("tasks: there is no npm, which the peers are installed with\nhint: install Node.js and npm")
    shutil.rmtree(TOOLS, ignore_errors=True)
    TOOLS.mkdir(parents=True)
    for lock in locks:
        shutil.copy(HERE / lock, TOOLS)
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    if subprocess.run(npm, cwd=TOOLS, stdout=sys.stderr).returncode != 0:
        sys.exit("tasks: cannot install the peers\nhint: the first run needs the network")
    done.touch()


def build():
    if subprocess.run(["cargo", "build", "--locked", "--release", "-p", "lmcp-cli"], cwd=ROOT).returncode != 0:
        sys.exit("tasks: cannot build lmcp")
    return TARGET / "release" / "lmcp"
