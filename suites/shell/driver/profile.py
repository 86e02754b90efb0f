"""A profile: how a server names the operations, arguments and results that the cases speak of.

The file says what a server offers, so what it leaves out cannot be tested. README.md lists the names.
"""

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

OPERATIONS = ("run", "start", "list", "read", "input", "stop")
PROFILES = Path(__file__).resolve().parent.parent / "profiles"


class Cannot(Exception):
    """The server offers no way to do what a case needs."""


class ProfileError(Exception):
    """The profile itself is wrong."""


@dataclass
class Operation:
    name: str
    tool: str
    args: dict
    fields: dict
    defaults: dict = field(default_factory=dict)
    rows: dict = field(default_factory=dict)
    exit_code_from: str = ""


class Profile:
    def __init__(self, document):
        self.name = document["name"]
        self.promises = document.get("promises", {})
        self.server_env = document.get("server", {}).get("env", {})
        self.server_files = document.get("server", {}).get("files", {})
        self.resource_page = document.get("resource", {}).get("page")
        self.operations = {name: operation(name, document[name]) for name in OPERATIONS if name in document}

    @classmethod
    def load(cls, text):
        path = Path(text) if "/" in text or text.endswith(".toml") else PROFILES / f"{text}.toml"
        try:
            return cls(tomllib.loads(path.read_text()))
        except OSError as error:
            raise ProfileError(f"cannot read the profile `{path}`: {error.strerror}") from error
        except (KeyError, tomllib.TOMLDecodeError) as error:
            raise ProfileError(f"the profile `{path}` is wrong: {error!r}") from error

    def on_host(self, host):
        """The same operations on a host behind `lmcp hub`: other names, one more argument, and no links to resources there."""
        for op in self.operations.values():
            op.tool = f"remote_{op.tool}"
            op.defaults = {**op.defaults, "host": host, "host_wait": 60}
            op.fields.pop("whole", None)

    def go_without(self, name):
        """Forgets an argument, a result or a promise that the server does not have."""
        for op in self.operations.values():
            op.args.pop(name, None)
            op.fields.pop(name, None)
        self.promises.pop(name, None)

    def keep_only(self, tools):
        """Forgets the operations whose tools the server does not have."""
        self.operations = {name: op for name, op in self.operations.items() if op.tool in tools}

    def operation(self, name):
        if name not in self.operations:
            raise Cannot(f"no operation `{name}`")
        return self.operations[name]

    def takes(self, operation, argument):
        return operation in self.operations and argument in self.operations[operation].args

    def tells(self, operation, name):
        return operation in self.operations and name in self.operations[operation].fields

    def needs_column(self, name):
        if name not in self.operation("list").rows:
            raise Cannot(f"`list` tells no `{name}`")

    def promise(self, name):
        if not self.promises.get(name):
            raise Cannot(f"not promised: `{name}`")
        return self.promises[name]

    def arguments(self, operation, args):
        """The server's arguments for ours."""
        op = self.operation(operation)
        sent = dict(op.defaults)
        for ours, value in args.items():
            if ours not in op.args:
                raise Cannot(f"`{operation}` takes no `{ours}`")
            name, value = translate(op.args[ours], value)
            sent[name] = value
        return sent


def operation(name, table):
    known = {"tool", "args", "fields", "defaults", "rows", "exit_code_from"}
    if set(table) - known:
        raise ProfileError(f"`{name}` has the unknown keys {sorted(set(table) - known)}")
    return Operation(name, **({"args": {}, "fields": {}} | table))


def translate(rule, value):
    if isinstance(rule, str):
        return rule, value
    if "scale" in rule:
        value = round(value * rule["scale"])
    if rule.get("as") == "int":
        value = int(value)
    return rule["name"], value


def extract(rule, result):
    """The value of one field in a tool result, None if it is not there."""
    if isinstance(rule, str):
        return at_path(result.get("structuredContent"), rule)
    if "block" in rule:
        texts = [block.get("text", "") for block in result.get("content", []) if block.get("name") == rule["block"]]
        return "".join(texts)
    text = text_of(result)
    if "matches" in rule:
        return rule["yes"] if re.search(rule["matches"], text, re.DOTALL) else rule["no"]
    if "each" in rule:
        return [match.groupdict() for match in re.finditer(rule["each"], text)]
    found = re.search(rule["text"], text, re.DOTALL)
    if not found:
        return rule.get("else")
    return int(found[1]) if rule.get("type") == "int" else found[1]


def at_path(value, path):
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def text_of(result):
    return "\n".join(block.get("text", "") for block in result.get("content", []) if block.get("type") == "text")
