"""What the scripts here need: real clients, installed once, and programs of ours, built.

The clients go into .tools/clients, in exactly the versions that the lock files here name.
"""

import filecmp
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TOOLS = ROOT / ".tools" / "clients"
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
PYTHON = TOOLS / "python/bin/python"
NODE = ("typescript-1", "typescript-2")


def install():
    for name in NODE:
        install_node(name, "drive.mjs")
    ensure_venv()
    venv = [sys.executable, "-m", "venv", "."]
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps"]
    install_into(TOOLS / "python", ("requirements.txt",), [venv, [*pip, "-r", "requirements.txt"]])


def install_node(name, program):
    """A program for Node, with the packages that it names."""
    if shutil.which("npm") is None:
        sys.exit("clients: there is no npm, which Node's packages are installed with\nhint: install Node.js and npm")
    # Nothing here needs the install scripts of its packages, so none is run.
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    npm += ["--prefer-offline", "--fetch-retries=1"]
    install_into(TOOLS / name, ("package.json", "package-lock.json", ".npmrc"), [npm])
    # Node looks for packages beside the file that imports them.
    shutil.copy(HERE / name / program, TOOLS / name)


def ensure_venv():
    """Debian has Python without its venv module; where it can be installed, it is."""
    if subprocess.run([sys.executable, "-c", "import ensurepip, venv"], stderr=subprocess.DEVNULL).returncode == 0:
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "-y", "--no-install-recommends", "python3-venv"]
        for command in (["apt-get", "update"], install):
            subprocess.run(command, stdout=sys.stderr)


def install_into(folder, locks, commands):
    """Runs the commands there, unless they have been run for the same lock files already."""
    source, done = HERE / folder.name, folder / "installed"
    if done.exists() and sorted(locks) == sorted(filecmp.cmpfiles(source, folder, locks, shallow=False)[0]):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for lock in locks:
        shutil.copy(source / lock, folder)
    for command in commands:
        if subprocess.run(command, cwd=folder, stdout=sys.stderr).returncode != 0:
            hint = "the first run needs the network, and Python its venv module: python3-venv on Debian"
            sys.exit(f"clients: cannot install what clients/{folder.name} names\nhint: {hint}")
    done.touch()


def find_node():
    """The installed one; else the one on the PATH, and it had better be new enough."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    installed = TOOLS / f"typescript-2/node_modules/node-linux-{machine}/bin/node"
    return installed if installed.exists() else "node"


def build(program, *options, target=TARGET):
    if subprocess.run(["cargo", "build", "--target-dir", target, *options], cwd=ROOT).returncode != 0:
        sys.exit(f"clients: cannot build {program}")
    return target / "debug" / program
