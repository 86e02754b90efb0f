"""The programs under test: where they are, how they are built, how big they are."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
ROOT = BENCH.parent
PEERS = BENCH / "peers" / "Cargo.toml"
TARGET = BENCH / "target"


@dataclass
class Program:
    name: str
    label: str
    path: Path
    speaks_mcp: bool = True
    # How to serve HTTP.
    serve: tuple = ("http", "{port}")
    # Why there is nothing to run; None when there is.
    missing: str | None = None
    crates: int | None = None

    def size(self):
        return self.path.stat().st_size


def programs(build, lmcp_path):
    """Bare hyper, rmcp and lmcp, built unless told not to; a missing lmcp is no error."""
    return [*peers(build), *lmcp_alone(build, lmcp_path)]


def lmcp_alone(build, lmcp_path):
    """For what needs no server of somebody else's."""
    lmcp = Program("lmcp", "lmcp", lmcp_path or shipped() / "examples" / "echo")
    lmcp.missing = build_lmcp(lmcp.path, build and lmcp_path is None)
    if lmcp.missing:
        print(f"bench: lmcp is skipped: {lmcp.missing}", file=sys.stderr)
    else:
        lmcp.crates = crate_count(["--manifest-path", ROOT / "Cargo.toml", "-p", "lmcp"])
    return [lmcp]


def peers(build):
    host = host_triple()
    built = TARGET / host / "release"
    versions = locked_versions()
    bare = Program("bare-hyper", f"bare hyper {versions['hyper']}", built / "bare-hyper", speaks_mcp=False)
    rmcp = Program("rmcp", f"rmcp {versions['rmcp']}", built / "rmcp-echo")

    for peer in (bare, rmcp):
        package = peer.path.name
        if build:
            # One package at a time: together they would share the union of their
            # features, and neither would be the program its manifest describes.
            profile = ["--release", "--locked", "-p", package]
            if not cargo_build(["--manifest-path", PEERS, *profile], host, TARGET):
                sys.exit(f"bench: cannot build the peer `{package}`")
        if not peer.path.exists():
            sys.exit(f"bench: no `{package}` built yet; run without --no-build")
        # A peer's own crate is the program, not something it links.
        linked = crate_count(["--manifest-path", PEERS, "-p", package])
        peer.crates = linked and linked - 1
    return [bare, rmcp]


def sessionless(rmcp):
    """The same peer without sessions in the older revisions: less to offer, and less to do."""
    return replace(rmcp, name="rmcp, no session", label=f"{rmcp.label}, no session", serve=("http-sessionless", "{port}"))


def command_line(build):
    """The binary people run, for what needs its options."""
    path = shipped() / "lmcp"
    # Connections count as memory, and this many do not fit into the usual budget.
    room = ("--connections", "5500", "--memory", "512M")
    serve = ("serve", "--demo", "--http", "127.0.0.1:{port}", *room, "--state-dir", str(TARGET / "state"))
    program = Program("lmcp", "lmcp", path, serve=serve)
    if build and subprocess.run([ROOT / "dist", "lmcp"], stdout=sys.stderr).returncode != 0:
        program.missing = "`./dist lmcp` failed"
    elif not path.exists():
        program.missing = "the binary is not built"
    return program


def shipped():
    """The folder that `./dist` builds into."""
    return ROOT / "target" / "shipped"


def build_lmcp(path, build):
    """Why there is no lmcp to measure, or None."""
    if build:
        if not (ROOT / "Cargo.toml").exists():
            return "the project has no Cargo.toml"
        # As it is shipped: static, with the functions in the order of their use.
        if subprocess.run([ROOT / "dist", "echo"], stdout=sys.stderr).returncode != 0:
            return "`./dist echo` failed"
    if not path.exists():
        return "its echo example is not built"
    return None


def cargo_build(args, host, target_dir):
    # Static, all of them: shared pages of a dynamic libc would count for one
    # server and against another.
    environment = os.environ | {"RUSTFLAGS": "-C target-feature=+crt-static"}
    command = ["cargo", "build", *args, "--target", host, "--target-dir", target_dir]
    return subprocess.run(command, env=environment).returncode == 0


def crate_count(args):
    """Crates linked into the program, the package itself included; None if cargo cannot say."""
    edges = ["-e", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]
    tree = subprocess.run(["cargo", "tree", "--locked", *args, *edges], capture_output=True, text=True)
    if tree.returncode != 0:
        return None
    return len({tuple(line.split()[:2]) for line in tree.stdout.splitlines() if line.strip()})


def host_triple():
    about = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    return re.search(r"^host: (.+)$", about, re.MULTILINE)[1]


def locked_versions():
    lock = PEERS.with_name("Cargo.lock").read_text()
    return dict(re.findall(r'^name = "(.+)"\nversion = "(.+)"$', lock, re.MULTILINE))


def ensure(program, package):
    if shutil.which(program):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit(f"bench: `{program}` is missing\nhint: install it, for example with `sudo apt-get install {package}`")
    install = ["apt-get", "install", "-y", "--no-install-recommends", package]
    for command in (install, ["apt-get", "update"], install):
        if subprocess.run(command, stdout=sys.stderr).returncode == 0 and shutil.which(program):
            return
    sys.exit(f"bench: `apt-get install {package}` failed")
