"""The calls to make through a framework: every tool, with each argument that nobody set absent, null or empty."""

import copy

# How an argument that nobody set arrives. Numbers and choices have no empty value: there they stay absent.
MODES = ("absent", "null", "empty")


def calls(tools, folder, url, jobs):
    """All calls, as dictionaries with `tool`, `mode` and `arguments`; makes the files that they need."""
    found = []
    for tool in tools:
        bases = BASES.get(tool["name"])
        if bases is None:
            raise SystemExit(f"frameworks: clients/frameworks/plan.py has no arguments for the tool {tool['name']}")
        for base in bases:
            # What is not in the schema, models do not send.
            if not base.keys() <= tool["inputSchema"].get("properties", {}).keys():
                continue
            for mode in MODES:
                number = len(found)
                (folder / f"{number}.txt").write_text("one\ntwo\n")
                words = {"N": str(number), "FOLDER": str(folder), "URL": url, **jobs}
                arguments = filled(tool["inputSchema"], said(base, words), mode)
                found.append({"tool": tool["name"], "mode": mode, "arguments": arguments})
    return found


def said(value, words):
    """A copy of the value in which names in braces stand for what they are here."""
    if isinstance(value, dict):
        return {key: said(inner, words) for key, inner in value.items()}
    if isinstance(value, list):
        return [said(inner, words) for inner in value]
    return value.format(**words) if isinstance(value, str) else value


def filled(schema, value, mode):
    """The value with all that its schema allows besides, down to the members of lists."""
    value = copy.copy(value)
    for name, inner in schema.get("properties", {}).items():
        # What is required and not needed, models leave empty.
        if name in schema.get("required", []):
            value.setdefault(name, "")
        if name in value:
            if isinstance(value[name], list) and isinstance(value[name][0], dict):
                value[name] = [filled(inner.get("items", {}), member, mode) for member in value[name]]
        elif mode == "null":
            value[name] = None
        elif mode == "empty" and "enum" not in inner and kind(inner) in EMPTY:
            value[name] = copy.copy(EMPTY[kind(inner)])
    return value


def kind(schema):
    """The type of an argument, without the null that it may also be."""
    types = schema.get("type")
    types = types if isinstance(types, list) else [types]
    return next((one for one in types if one != "null"), None)


def strict(schema, value):
    """What a model sends whose API wants every argument: the smallest that the schema allows, and the first choice."""
    value = dict(value)
    for name, inner in schema.get("properties", {}).items():
        if name not in value:
            value[name] = smallest(inner)
    return value


def smallest(schema):
    types = schema.get("type")
    if "null" in (types if isinstance(types, list) else [one.get("type") for one in schema.get("anyOf", [])]):
        return None
    if "enum" in schema:
        return schema["enum"][0]
    if kind(schema) in ("integer", "number"):
        return schema.get("default", max(0, schema.get("minimum", 0)))
    return copy.copy(EMPTY.get(kind(schema)))


EMPTY = {"string": "", "array": [], "object": {}, "boolean": False}
FILE = "{FOLDER}/{N}.txt"
EDIT = {"old_string": "one", "new_string": "1"}
BASES = {
    "shell": [{"command": "echo hello"}, {"argv": ["echo", "hello"]}],
    "shell_bg": [{"command": "true"}],
    "jobs": [{}],
    "job_output": [{"id": "{ENDED}"}],
    "job_input": [{"id": "{RUNNING}", "text": "hello\n"}],
    "job_stop": [{"id": "{ENDED}"}],
    "read_file": [{"path": FILE}, {"paths": [FILE]}],
    "write_file": [{"path": FILE, "content": "new\n"}],
    "edit_file": [{"path": FILE, **EDIT}, {"edits": [{"path": FILE, **EDIT}]}],
    "list_dir": [{"path": "{FOLDER}"}],
    "search_files": [{"pattern": "two", "path": FILE}],
    "fetch": [{"url": "{URL}/page"}],
    "web_search": [{"query": "something"}],
    "systeminfo": [{}],
    "file_history": [{}],
}
