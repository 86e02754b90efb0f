"""Runs cases side by side, each with a server of its own where the suite may start one."""

import os
import secrets
import shutil
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from . import processes, wire
from .case import Context, Failed, World
from .http import Http
from .profile import Cannot
from .stdio import Stdio

PASSED, FAILED, CANNOT = "passed", "FAIL", "cannot"


@dataclass
class Outcome:
    case: object
    verdict: str
    message: str
    seconds: float


class Runner:
    def __init__(self, profile, command, url, era):
        self.command, self.url, self.era = command, url, era
        self.ending = False
        # One big case at a time: two would measure each other.
        self.heavy = threading.Lock()
        self.world = World(
            profile=profile,
            mark=f"shs{secrets.token_hex(5)}",
            connect=self.connect,
            owns=url is None,
        )
        self.world.folder = Path(tempfile.mkdtemp(prefix=f"{self.world.mark}-"))

    def connect(self, state, mark, env, terminal):
        if self.ending:
            raise wire.NoAnswer("the suite is being ended")
        if self.url:
            return Http(self.url, self.era)
        for name, content in self.world.profile.server_files.items():
            (state / name).parent.mkdir(parents=True, exist_ok=True)
            (state / name).write_text(content)
        command = [part.replace("{state}", str(state)) for part in self.command]
        own = {name: value.replace("{state}", str(state)) for name, value in self.world.profile.server_env.items()}
        return Stdio(command, self.era, dict(os.environ) | own | env, mark, terminal)

    def probe(self):
        """Learns what the server has, and whether its processes can be seen from here."""
        cx = Context(self.world, Probe)
        try:
            listed = cx.server.request("tools/list", {}).wait(cx.deadline)
            if "error" in listed:
                raise wire.NoAnswer(f"tools/list is refused: {listed['error'].get('message')}")
            tools = {tool["name"] for tool in listed["result"]["tools"]}
            self.world.profile.keep_only(tools)
            if "run" in self.world.profile.operations:
                self.world.sees = os.readlink("/proc/self/ns/pid") in cx.run("readlink /proc/self/ns/pid")["stdout"]
            return tools
        except wire.NoAnswer as error:
            complaint = cx.servers[0].complaint() if cx.servers else ""
            raise wire.NoAnswer(f"{error}\n{complaint}".strip()) from error
        finally:
            cx.close()

    def run(self, cases, side_by_side, report):
        """All outcomes, in the order of the cases; `report` gets each as it comes."""
        first = sorted(cases, key=lambda case: not case.heavy)
        with ThreadPoolExecutor(side_by_side) as pool:
            futures = {id(case): pool.submit(self.judge, case, report) for case in first}
            try:
                return [futures[id(case)].result() for case in cases]
            except BaseException:
                # Somebody ends the suite. Without their servers the running cases end soon.
                self.ending = True
                pool.shutdown(wait=False, cancel_futures=True)
                processes.sweep(self.world.mark)
                raise

    def judge(self, case, report):
        began = time.monotonic()
        with self.heavy if case.heavy else threading.Lock():
            began = time.monotonic() if case.heavy else began
            verdict, message = self.attempt(case)
        outcome = Outcome(case, verdict, message, time.monotonic() - began)
        if not self.ending:
            report(outcome)
        return outcome

    def attempt(self, case):
        if "own" in case.needs and not self.world.owns:
            return CANNOT, "the suite did not start this server"
        if {"own", "sees"} & set(case.needs) and not self.world.sees:
            return CANNOT, "the server's processes cannot be seen from here"
        cx = None
        try:
            cx = Context(self.world, case)
            case.body(cx)
            return PASSED, ""
        except Cannot as reason:
            return CANNOT, str(reason)
        except (Failed, wire.NoAnswer) as reason:
            return FAILED, str(reason)
        except Exception as error:  # A result of another shape than the profile says must not stop the other cases.
            where = traceback.extract_tb(error.__traceback__)[-1]
            return FAILED, f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        finally:
            if cx:
                cx.close()

    def close(self):
        left = processes.sweep(self.world.mark)
        shutil.rmtree(self.world.folder, ignore_errors=True)
        return left


class Probe:
    topic, name = "probe", "probe"
    limit = 60
