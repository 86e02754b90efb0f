"""The command line of `suites/shell/run`."""

import argparse
import signal
import sys
import threading
import time
from pathlib import Path

from . import report, wire
from .case import CASES
from .profile import Profile, ProfileError
from .runner import FAILED, Runner


def main():
    import cases  # noqa: F401  (it registers itself in CASES)

    args = parse()
    chosen = [case for case in CASES if not args.only or any(word in f"{case.topic}/{case.name}" for word in args.only)]
    if args.list:
        print(report.catalogue(chosen))
        return 0
    if not sys.platform.startswith("linux"):
        sys.exit("suites/shell: only Linux shows other processes the way this reads them")
    if not chosen:
        sys.exit(f"suites/shell: no case is called {' or '.join(args.only)}")
    try:
        profile = Profile.load(args.profile)
        if args.host:
            profile.on_host(args.host)
        for name in args.without:
            profile.go_without(name)
    except ProfileError as error:
        sys.exit(f"suites/shell: {error}")
    # Ends that unwind, so that nothing is left behind. In the background of a script the rest is ignored, and would be
    # ignored by servers and their commands too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("suites/shell: ended by a signal"))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    return run(args, profile, chosen)


def run(args, profile, chosen):
    era = wire.MODERN if args.modern else wire.LEGACY
    runner = Runner(profile, args.command, args.http, era)
    began = time.monotonic()
    try:
        runner.probe()
        missing = [name for name in ("run", "start", "list", "read", "input", "stop") if name not in profile.operations]
        print(f"# {profile.name}, MCP {era}, {'HTTP' if args.http else 'stdio'}, {len(chosen)} cases")
        if missing:
            print(f"# the server has no operation {', '.join(missing)}")
        outcomes = runner.run(chosen, args.jobs, printer(args.quiet))
    except (wire.NoAnswer, OSError) as error:
        sys.exit(f"suites/shell: cannot talk to the server: {error}")
    except KeyboardInterrupt:
        sys.exit("suites/shell: ended by the keyboard")
    finally:
        left = runner.close()
        if left:
            print(f"suites/shell: these processes could not be ended: {left}", file=sys.stderr)
    seconds = time.monotonic() - began
    if args.json:
        head = {"profile": profile.name, "era": era, "seconds": round(seconds, 1)}
        args.json.write_text(report.as_json(outcomes, head))
    print(f"\n{report.table(outcomes)}\n\n{seconds:.0f} s")
    print(report.last_line(outcomes))
    return 1 if any(outcome.verdict == FAILED for outcome in outcomes) else 0


def printer(quiet):
    lock = threading.Lock()

    def show(outcome):
        if quiet and outcome.verdict != FAILED:
            return
        with lock:
            print(report.line(outcome), flush=True)

    return show


def parse():
    parser = argparse.ArgumentParser(
        prog="suites/shell/run",
        description="Check the shell and job tools of any MCP server.",
        epilog="Example: run --profile lmcp --stdio -- lmcp serve --stdio",
    )
    parser.add_argument("--profile", default="lmcp", help="a name in profiles/ or the path of a .toml file")
    parser.add_argument("--host", metavar="NAME", help="the server is `lmcp hub`, and its host of this name is meant")
    parser.add_argument(
        "--without", action="append", default=[], metavar="NAME", help="an argument, result or promise of the profile that is not there"
    )
    parser.add_argument("--stdio", action="store_true", help="start the server given after --, once for every case")
    parser.add_argument("--http", metavar="URL", help="use a server that runs already; it is never killed")
    parser.add_argument("--modern", action="store_true", help=f"speak {wire.MODERN} instead of {wire.LEGACY}")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="only cases with this in topic/name; repeatable"
    )
    parser.add_argument("--jobs", type=int, default=8, metavar="N", help="cases side by side, 8 if not said")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the outcomes here")
    parser.add_argument("--quiet", action="store_true", help="show failures and the summary alone")
    parser.add_argument("--list", action="store_true", help="show the cases and run none")
    parser.add_argument("command", nargs="*", metavar="CMD", help="the server's command line; {state} becomes a folder")
    args = parser.parse_args()
    if not args.list and bool(args.http) == bool(args.stdio and args.command):
        parser.error("give either --stdio -- CMD or --http URL")
    return args
