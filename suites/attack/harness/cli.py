"""The command line: which cases run, as whom, and what is said of them."""

import argparse
import encodings.idna  # noqa: F401  (used by sockets, and not to be found any more once root is given up)
import os
import secrets
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cases
from driver import processes, wire

from . import ending, users
from .case import CASES, Failed, Skip
from .world import Context, World

PASSED, FAILED, SKIPPED = "ok", "FAILED", "skipped"
REPOSITORY = Path(__file__).resolve().parents[3]


def main():
    args = parse()
    chosen = [case for case in CASES if is_chosen(case, args)]
    if args.list:
        for case in chosen:
            print(f"{case.topic}/{case.name} [{case.number}, {case.form}]\n    {case.why}")
        return 0
    if not sys.platform.startswith("linux"):
        sys.exit("suites/attack: only Linux shows other processes the way this reads them")
    if not chosen:
        sys.exit(f"suites/attack: no case is called {' or '.join(args.only)}")
    if not args.binary.is_file():
        sys.exit(f"suites/attack: there is no {args.binary}; run `cargo build -p lmcp-cli`, or name it with --binary")
    ending.unwind_on_signals()
    began = time.monotonic()
    outcomes = run_passes(passes(args), chosen, args)
    print(f"\n{time.monotonic() - began:.0f} s")
    counts = [sum(outcome["verdict"] == verdict for outcome in outcomes) for verdict in (PASSED, FAILED, SKIPPED)]
    print("{} passed, {} failed, {} skipped".format(*counts))
    return 1 if counts[1] else 0


def parse():
    parser = argparse.ArgumentParser(prog="suites/attack/run", description="Attack the real lmcp binary from outside.")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--short", action="store_true", help="the cases of ./test (what is run if nothing is said)")
    form.add_argument("--long", action="store_true", help="all cases, heavy ones and open ones among them")
    parser.add_argument("--only", action="append", metavar="NAME", help="cases with this in topic/name or number")
    parser.add_argument("--binary", type=Path, default=REPOSITORY / "target/debug/lmcp", metavar="PATH")
    parser.add_argument("--user", choices=["root", "ordinary"], help="one pass only; both if run as root")
    parser.add_argument("--jobs", type=int, default=4, metavar="N", help="cases side by side, 4 if not said")
    parser.add_argument("--quiet", action="store_true", help="show failures and the summary alone")
    parser.add_argument("--list", action="store_true", help="show the cases and run none")
    args = parser.parse_args()
    args.short_form = not (args.long or args.only)
    return args


def is_chosen(case, args):
    if args.only:
        return any(word in f"{case.topic}/{case.name}" or word == case.number for word in args.only)
    return args.long or (case.form == "short" and case.name not in cases.OPEN)


def passes(args):
    """As whom the cases run. Without root there is only the user who runs this."""
    if os.geteuid() != 0:
        return ["self"]
    return [args.user] if args.user else ["ordinary", "root"]


def run_passes(names, chosen, args):
    """All outcomes. The short form, which measures no times, runs both passes at once."""
    print(f"# {len(chosen)} cases as {' and as '.join(names)}", flush=True)
    if "ordinary" not in names:
        return attack(chosen, names[0], args)
    child = users.Child(lambda: attack(chosen, "ordinary", args))
    try:
        outcomes = [] if not args.short_form else [attack(chosen, name, args) for name in names if name != "ordinary"]
        outcomes.append(child.result())
    except BaseException:
        child.end()
        raise
    if not args.short_form:
        outcomes += [attack(chosen, name, args) for name in names if name != "ordinary"]
    return [outcome for group in outcomes for outcome in group]


def attack(chosen, name, args):
    """Runs the cases: those that measure one after the other, then the rest side by side."""
    world = World(args.binary, f"lmcpattack{secrets.token_hex(4)}")
    lock = threading.Lock()

    def judge(case):
        outcome = attempt(world, case) | {"as": name}
        with lock:
            show(outcome, args.quiet)
        return outcome

    try:
        outcomes = [judge(case) for case in chosen if case.alone]
        with ThreadPoolExecutor(args.jobs) as pool:
            futures = [pool.submit(judge, case) for case in chosen if not case.alone]
            try:
                return outcomes + [future.result() for future in futures]
            except BaseException:
                # Somebody ends the suite. Without their servers the running cases end soon.
                pool.shutdown(wait=False, cancel_futures=True)
                processes.sweep(world.mark)
                raise
    finally:
        left = world.close()
        if left:
            print(f"suites/attack: these processes could not be ended: {left}", file=sys.stderr)


def attempt(world, case):
    began = time.monotonic()
    cx = None
    try:
        if "root" in case.needs and os.geteuid() != 0:
            raise Skip("needs root")
        if "user" in case.needs and os.geteuid() == 0:
            raise Skip("is about an ordinary user")
        cx = Context(world, case)
        case.body(cx)
        verdict, message = PASSED, ""
    except Skip as reason:
        verdict, message = SKIPPED, str(reason)
    except (Failed, wire.NoAnswer) as reason:
        verdict, message = FAILED, str(reason)
    except Exception as error:  # A server that answers nonsense must not stop the other cases.
        where = traceback.extract_tb(error.__traceback__)[-1]
        verdict, message = FAILED, f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
    finally:
        if cx:
            cx.close()
    return {
        "name": f"{case.topic}/{case.name}",
        "number": case.number,
        "why": case.why,
        "verdict": verdict,
        "message": message,
        "seen": "; ".join(cx.seen) if cx else "",
        "seconds": time.monotonic() - began,
    }


def show(outcome, quiet):
    if quiet and outcome["verdict"] != FAILED:
        return
    text = "{verdict:7} {as}: {name} [{number}] ({seconds:.1f} s)".format(**outcome)
    parts = [part for part in (outcome["message"], outcome["seen"]) if part]
    print(": ".join([text, "; ".join(parts)]) if parts else text, flush=True)
    if outcome["verdict"] == FAILED:
        print(f"        why: {outcome['why']}", flush=True)
