"""`lmcp proxy`: its memory, what it adds to a call, and ten of them on one server beside ten servers.

Memory of several processes is summed by PSS, which counts a page that is shared
once: ten servers of one file share its code, and that must not count for them or
against them.
"""

import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from .host_load import Session
from .http_load import say
from .process import Server
from .wire import Failed

CALLS = 2000
SESSIONS = 10


@dataclass
class Proxied:
    """Memory in kB, times in seconds: one value a process, call or round."""

    rss_kb: list = field(default_factory=list)
    private_kb: list = field(default_factory=list)
    direct: list = field(default_factory=list)
    through: list = field(default_factory=list)
    # All processes of ten sessions together.
    shared_kb: list = field(default_factory=list)
    separate_kb: list = field(default_factory=list)


def measure_proxy(binary, settings):
    """{"lmcp": Proxied}, or why there is none."""
    if binary.missing:
        return {"lmcp": f"skipped: {binary.missing}"}
    try:
        return {"lmcp": measure(binary, settings)}
    except (Failed, OSError) as error:
        return {"lmcp": f"failed: {error}"}


def measure(binary, settings):
    seen = Proxied()
    with tempfile.TemporaryDirectory() as state:
        os.environ["LMCP_STATE_DIR"] = state
        socket = Path(state, "socket")
        for _ in range(settings.rounds):
            one_round(seen, binary.path, socket)
        del os.environ["LMCP_STATE_DIR"]
    say("proxy: done")
    return seen


def one_round(seen, path, socket):
    """The same session twice: a server on stdio, and a proxy in front of one on a socket."""
    with Server([path, "serve", "--demo", "--unix", socket]) as server:
        wait_for(socket, server)
        with Session([path, "serve", "--demo", "--stdio"]) as direct, Session([path, "proxy", socket]) as proxy:
            time_calls(direct, seen.direct)
            time_calls(proxy, seen.through)
            seen.rss_kb.append(proxy.memory_kb("VmRSS"))
            seen.private_kb.append(private_kb(proxy.pid))
    seen.shared_kb.append(ten(lambda: Session([path, "proxy", socket]), Server([path, "serve", "--unix", socket]), socket))
    seen.separate_kb.append(ten(lambda: Session([path, "serve", "--stdio"])))


def ten(start, server=None, socket=None):
    """The memory of ten sessions that have listed the tools, and of the server behind them."""
    processes = [server] if server else []
    try:
        if server:
            wait_for(socket, server)
        for _ in range(SESSIONS):
            session = start()
            processes.append(session)
            session.call("tools/list", {})
        return sum(rollup(process.pid, "Pss:") for process in processes)
    finally:
        for process in processes:
            process.end()


def time_calls(session, seconds):
    for number in range(CALLS):
        text = f"call {number}"
        start = time.perf_counter()
        session.tool("echo", text=text)
        seconds.append(time.perf_counter() - start)


def wait_for(socket, server):
    end = time.monotonic() + 10
    while not socket.exists():
        if server.child.poll() is not None or time.monotonic() > end:
            raise Failed("not listening")
        time.sleep(0.01)


def private_kb(pid):
    return rollup(pid, "Private_Clean:") + rollup(pid, "Private_Dirty:")


def rollup(pid, name):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))
