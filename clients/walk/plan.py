"""What a client does with server-everything: every step, the feature it belongs to, and how two records of it are compared."""

import base64
import json
import re

FEATURES = ["list", "call", "progress", "cancel", "elicitation", "sampling", "roots", "subscribe"]
FEATURES += ["list changed", "read", "prompt", "completion", "logging", "errors"]

TEXT, BLOB = "demo://resource/dynamic/text/1", "demo://resource/dynamic/blob/2"
TEMPLATE = "demo://resource/dynamic/text/{resourceId}"
UPDATED = "notifications/resources/updated"
DATA = "data:text/plain;base64," + base64.b64encode(b"one hop is as good as none").decode()


def step(feature, do, hear=None, **rest):
    return {"feature": feature, "do": do, "hear": hear, **rest}


def call(feature, name, hear=None, /, with_progress=False, stop_at=None, log_level=None, **arguments):
    more = {"progress": with_progress or stop_at is not None, "stopAt": stop_at, "logLevel": log_level}
    return step(feature, "call", hear, name=name, arguments=arguments, **more)


def complete(kind, name, argument, value, **context):
    return step("completion", "complete", kind=kind, name=name, argument=argument, value=value, context=context)


LONG, LOGGING, UPDATES = "trigger-long-running-operation", "toggle-simulated-logging", "toggle-subscriber-updates"
PLAN = [
    step("list", "tools"),
    step("list", "resources"),
    step("list", "templates"),
    step("list", "prompts"),
    call("call", "echo", message="grüße"),
    call("call", "get-sum", a=2, b=3.5),
    call("call", "get-annotated-message", messageType="error", includeImage=True),
    call("call", "get-env"),
    call("call", "get-resource-links", count=3),
    call("call", "get-resource-reference", resourceType="Text", resourceId=7),
    call("call", "get-resource-reference", resourceType="Blob", resourceId=8),
    call("call", "get-structured-content", location="New York"),
    call("call", "get-tiny-image"),
    call("call", LONG, duration=0.2, steps=2),
    call("progress", LONG, with_progress=True, duration=0.4, steps=4),
    call("cancel", LONG, stop_at=1, duration=2, steps=20),
    call("cancel", "echo", message="still here"),
    call("elicitation", "trigger-elicitation-request"),
    call("elicitation", "trigger-url-elicitation", url="https://example.org/", message="Look", elicitationId="e1"),
    call("sampling", "trigger-sampling-request", prompt="hm", maxTokens=5),
    call("roots", "get-roots-list"),
    step("subscribe", "subscribe", uri=TEXT),
    call("subscribe", UPDATES, UPDATED),
    call("subscribe", UPDATES),
    step("subscribe", "unsubscribe", uri=TEXT),
    call("list changed", "gzip-file-as-resource", "notifications/resources/list_changed", name="a.gz", data=DATA),
    step("list changed", "resources"),
    step("read", "read", uri=TEXT),
    step("read", "read", uri=BLOB),
    step("read", "read", uri="demo://resource/static/document/features.md"),
    step("read", "read", uri="demo://resource/session/a.gz"),
    step("prompt", "prompt", name="simple-prompt", arguments={}),
    step("prompt", "prompt", name="args-prompt", arguments={"city": "Ulm", "state": "BW"}),
    step("prompt", "prompt", name="completable-prompt", arguments={"department": "Sales", "name": "Eve"}),
    step("prompt", "prompt", name="resource-prompt", arguments={"resourceType": "Text", "resourceId": "3"}),
    complete("prompt", "completable-prompt", "department", "S"),
    complete("prompt", "completable-prompt", "name", "", department="Sales"),
    complete("resource", TEMPLATE, "resourceId", "12"),
    complete("resource", TEMPLATE, "resourceId", "x"),
    step("logging", "level", level="debug"),
    call("logging", LOGGING, "notifications/message", log_level="debug"),
    call("logging", LOGGING),
    call("errors", "no-such-tool"),
    call("errors", "get-sum", a="x", b=1),
    call("errors", "trigger-url-elicitation", url="https://example.org/", message="Look", errorPath=True),
    call("errors", "simulate-research-query", topic="hops"),
    step("errors", "read", uri="demo://resource/dynamic/text/x"),
    step("errors", "read", uri="demo://nowhere"),
    step("errors", "prompt", name="no-such-prompt", arguments={}),
    step("errors", "prompt", name="args-prompt", arguments={}),
    complete("prompt", "no-such-prompt", "x", ""),
]
PLAN[-1]["feature"] = "errors"

# Differences that stay, each with its reason.
UNKNOWN = "a hub answers by itself, in its own words, what names nothing of any server"
KNOWN = {("hub", "no-such-tool"): UNKNOWN, ("hub", "no-such-prompt"): UNKNOWN}


def plain(got, names, uris):
    """What a client got, without what may differ: times, the prefixes of a hub, and what a newer revision adds."""
    if "error" in got and isinstance(got["error"], dict):
        # Some clients write the name of the tool into errors of their own.
        got["error"]["message"] = got["error"]["message"].replace(names, "")
    # A report that arrives together with the answer is lost in the TypeScript SDK itself.
    # And it reports its own rounds of questions as progress.
    is_its = lambda report: report["progress"] != report.get("total") and "round" not in (report.get("message") or "")
    got["progress"] = list(filter(is_its, got["progress"]))
    got = walk({key: value for key, value in got.items() if value not in (None, [])}, names, uris)
    for message in got.get("told", []):
        # No parameters and empty ones are the same.
        message["params"] = message.get("params") or {}
    return got


def without_older(value):
    """The same without what 2026-07-28 does not have: some clients read it all the same, some do not."""
    if isinstance(value, dict):
        return {name: without_older(inner) for name, inner in value.items() if name not in OLDER}
    return [without_older(inner) for inner in value] if isinstance(value, list) else value


def walk(value, names, uris, key=None):
    if isinstance(value, dict):
        if SIMULATED.fullmatch(str(value.get("data"))):
            # Its level is drawn by lot.
            return "a simulated message"
        value = {name: inner for name, inner in value.items() if inner is not None}
        return {name: walk(inner, names, uris, name) for name, inner in value.items() if name not in NEWER}
    if isinstance(value, list):
        return [walk(inner, names, uris, key) for inner in value]
    if isinstance(value, str):
        return word(value, names, uris, key)
    # JSON has one kind of numbers, and some readers have two.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def word(text, names, uris, key):
    if key in ("uri", "uriTemplate"):
        return text.removeprefix(uris)
    if key == "name":
        return text.removeprefix(names)
    if key == "blob":
        return untimed(base64.b64decode(text).decode("latin-1"))
    return untimed(environment(text))


def untimed(text):
    text = re.sub(r"\d{1,2}:\d\d:\d\d [AP]M", "TIME", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text)
    # On stdio the server has no name for its session.
    return text.replace("session undefined", "session UUID")


def environment(text):
    """Of the environment of the server, only what is the same however it is started."""
    try:
        read = json.loads(text)
    except ValueError:
        return text
    return read["HOME"] if isinstance(read, dict) and "HOME" in read else text


# Members that 2026-07-28 does not have any more, and members of results that revisions before it do not have.
OLDER = ("execution", "elicitationId")
NEWER = ("resultType", "ttlMs", "cacheScope", "_meta")
SIMULATED = re.compile(r"\w+[- ]level[- ]message( - SessionId \S+)?")
