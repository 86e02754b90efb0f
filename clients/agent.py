"""The agents that people use, run without their makers' models: how each is set up, installed, started.

They are installed into .tools/clients/agents, once, in exactly the versions that clients/agents names: 1 GB.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TOOLS = ROOT / ".tools" / "clients" / "agents"
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")


class Agent:
    """What an agent needs to run with a model of ours: a home with settings, variables, words."""

    def __init__(self, name, package, tool, settings, words, allow=lambda name: [], listing=None, env=None, models=("x",)):
        self.name, self.package = name, package
        # Models that it treats differently.
        self.models = models
        # How the tools of a server are called in what a model is sent.
        self.tool = tool
        # The user's own file, below the home, and what is in it for a model at a URL and a server with a name.
        self.path, self.settings = settings
        # How it is asked something, and what to add so that it uses the tools of a server unasked.
        self.words, self.allow = words, allow
        self.listing, self.env = listing, env or (lambda url: {})

    def version(self):
        return json.loads((TOOLS / "node_modules" / self.package / "package.json").read_text())["version"]


def claude_settings(url, name, server, model="x"):
    return json.dumps({"mcpServers": {name: {"type": "stdio", "command": server[0], "args": server[1:]}}})


def codex_settings(url, name, server, model="x"):
    return f"""# mine
model = "{model}"
model_provider = "stub"
[model_providers.stub]
name = "stub"
base_url = "{url}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[mcp_servers.{name}]
command = {json.dumps(server[0])}
args = {json.dumps(server[1:])}
"""


def opencode_settings(url, name, server, model="x"):
    abilities = {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
    options = {"baseURL": f"{url}/v1", "apiKey": "x"}
    stub = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {model: abilities}}
    mcp = {name: {"type": "local", "command": server}}
    # It would write this into the file itself.
    schema = {"$schema": "https://opencode.ai/config.json"}
    return json.dumps({**schema, "provider": {"stub": stub}, "model": f"stub/{model}", "mcp": mcp})


def gemini_settings(url, name, server, model="x"):
    mine = {"command": server[0], "args": server[1:]}
    auth = {"auth": {"selectedType": "gemini-api-key"}}
    return "// mine\n" + json.dumps({"security": auth, "mcpServers": {name: mine}})


CLAUDE_OFF = ("DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING")
OPENCODE_OFF = ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH")
AGENTS = (
    Agent(
        "claude",
        "@anthropic-ai/claude-code",
        "mcp__{}__",
        (".claude.json", claude_settings),
        # The prompt stands where a flag of any number of values would take it.
        lambda prompt: [prompt, "-p"],
        lambda name: ["--allowedTools", f"mcp__{name}"],
        env=lambda url: {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "x", **dict.fromkeys(CLAUDE_OFF, "1")},
    ),
    Agent(
        "codex",
        "@openai/codex",
        "mcp__{}",
        (".codex/config.toml", codex_settings),
        lambda prompt: ["exec", "--skip-git-repo-check", prompt],
        lambda name: ["-c", f'mcp_servers.{name}.default_tools_approval_mode="approve"'],
        listing=["mcp", "list"],
        # The first has to search for tools before it can call them, the second writes programs that call them.
        models=("gpt-5.5", "gpt-6.1-sol"),
    ),
    Agent(
        "opencode",
        "opencode-ai",
        "{}_",
        (".config/opencode/opencode.json", opencode_settings),
        lambda prompt: ["run", prompt],
        listing=["mcp", "list"],
        env=lambda url: dict.fromkeys(OPENCODE_OFF, "1"),
    ),
    Agent(
        "gemini",
        "@google/gemini-cli",
        "mcp_{}_",
        (".gemini/settings.json", gemini_settings),
        # Without a terminal it offers only tools that it need not ask about.
        lambda prompt: ["--skip-trust", "--yolo", "-p", prompt],
        listing=["mcp", "list"],
        env=lambda url: {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "x"},
    ),
)


def chosen(names, script):
    """The agents with these names; all of them, if there is none."""
    if unknown := set(names) - {agent.name for agent in AGENTS}:
        sys.exit(f"{script}: there is no agent {', '.join(unknown)}")
    return [agent for agent in AGENTS if not names or agent.name in names]


def make_home(agent, folder, settings):
    """Folders for one run, with the user's own settings. Returns their file."""
    for name in ("home", "run", "work", "tmp"):
        (folder / name).mkdir()
    mine = folder / "home" / agent.path
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text(settings)
    return mine


def start(agent, command, folder, model, seconds):
    """What the agent says, with nothing of this environment that it would heed and no way out of this machine."""
    env = {
        "PATH": f"{TOOLS / 'node_modules/.bin'}:{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "TMPDIR": str(folder / "tmp"),
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1",
        **agent.env(model.url),
    }
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = subprocess.Popen(command, env=env, cwd=folder / "work", text=True, start_new_session=True, **streams)
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0] + f"\nit did not end within {seconds} s"


def install(script):
    """Installs the agents, unless they have been in the same versions already."""
    done, wanted = TOOLS / "installed", (HERE / "agents/package.json").read_bytes()
    if done.exists() and done.read_bytes() == wanted:
        return
    if shutil.which("npm") is None:
        sys.exit(f"{script}: there is no npm, which the agents are installed with\nhint: install Node.js and npm")
    shutil.rmtree(TOOLS, ignore_errors=True)
    TOOLS.mkdir(parents=True)
    (TOOLS / "package.json").write_bytes(wanted)
    # Each is one program, which pins its part for this machine itself, so a lock file would lock nothing more.
    npm = ["npm", "install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
    # Only these two need their scripts: they put that part in its place.
    packages = TOOLS / "node_modules"
    scripts = ("@anthropic-ai/claude-code/install.cjs", "opencode-ai/postinstall.mjs")
    steps = [(npm, TOOLS), *((["node", packages / path], (packages / path).parent) for path in scripts)]
    for command, folder in steps:
        if subprocess.run(command, cwd=folder, stdout=sys.stderr).returncode != 0:
            sys.exit(f"{script}: cannot install the agents\nhint: the first run needs the network")
    done.write_bytes(wanted)


def build(script):
    if subprocess.run(["cargo", "build", "--locked", "-p", "lmcp-cli"], cwd=ROOT).returncode != 0:
        sys.exit(f"{script}: cannot build lmcp")
    return TARGET / "debug" / "lmcp"
