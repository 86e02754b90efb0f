"""Drives FastMCP's client through every feature, and prints one line of JSON for each.

    python drive.py REVISION stdio PROGRAM
    python drive.py REVISION http URL CUT_URL     (CUT_URL leads through a proxy that cuts the stream of `slow`)
"""

import json
import sys
import warnings

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp import types
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPDeprecationWarning

# What the newest revision deprecates is what the older ones are made of.
warnings.simplefilter("ignore", MCPDeprecationWarning)

REVISION, KIND, TARGET, *CUT_URL = sys.argv[1:]
MODERN = REVISION == "2026-07-28"
NOTE = "clients://note"
FEATURES = ["connect", "list", "call", "structured output", "progress", "cancel"]
FEATURES += ["elicitation", "sampling", "roots", "subscribe", "list changed", "resume"]
# Only bounds a failure: nothing waits for it.
PATIENCE_SECONDS = 20

CANNOT = {}
if MODERN:
    CANNOT["resume"] = "the revision has no resumption: a stream that ends is a request that is cancelled"
elif KIND == "stdio":
    CANNOT["resume"] = "stdio has no stream that could be resumed"


class Features:
    """One method for each column of the table, in its order."""

    def __init__(self, client, heard):
        self.client, self.heard = client, heard

    async def connect(self):
        assert self.client.server_info.name == "clients-server"
        assert self.client.protocol_version == REVISION, self.client.protocol_version

    async def list(self):
        tools = {tool.name for tool in await self.client.list_tools()}
        assert {"echo", "next"} <= tools, tools
        assert str((await self.client.list_resources())[0].uri) == NOTE
        assert (await self.client.list_prompts())[0].name == "hello"

    async def call(self):
        assert await self.say("echo", {"text": "grüße"}) == "grüße"

    async def structured_output(self):
        result = await self.client.call_tool("add", {"a": 2, "b": 3})
        assert result.structured_content == {"sum": 5}, result

    async def progress(self):
        seen = []

        async def on_progress(progress, total, message):
            seen.append((progress, total, message))
            await self.say("next")

        await self.client.call_tool("count", progress_handler=on_progress)
        assert seen == [(1, 3, "one"), (2, 3, "two"), (3, 3, "three")], seen

    async def cancel(self):
        async def on_progress(*_):
            scope.cancel()

        with anyio.CancelScope() as scope:
            await self.client.call_tool("wait", progress_handler=on_progress)
        assert await self.say("cancelled") == "1"

    async def elicitation(self):
        assert await self.say("greet") == "Hello, Ada!"

    async def sampling(self):
        assert await self.say("capital") == "Paris"

    async def roots(self):
        assert await self.say("folders") == "file:///project"

    # For subscriptions FastMCP hands out the session of the SDK that it is built on.
    async def subscribe(self):
        if MODERN:
            async with listen(self.client.session, resource_subscriptions=[NOTE]) as events:
                await self.say("touch")
                assert (await anext(aiter(events))).uri == NOTE
            return
        await self.client.session.subscribe_resource(NOTE)
        await self.say("touch")
        assert (await self.heard.receive()).params.uri == NOTE

    async def list_changed(self):
        if MODERN:
            async with listen(self.client.session, tools_list_changed=True) as events:
                await self.say("grow")
                await anext(aiter(events))
        else:
            await self.say("grow")
            assert isinstance(await self.heard.receive(), types.ToolListChangedNotification)
        assert "grown" in {tool.name for tool in await self.client.list_tools()}

    async def resume(self):
        async with connection(*CUT_URL) as client:
            # By the time the report is here, the stream behind it is gone: the result can only come over another one.
            async def on_progress(*_):
                await client.call_tool("next")

            result = await client.call_tool("slow", progress_handler=on_progress)
            assert result.content[0].text == "still here"

    async def say(self, tool, arguments=None):
        return (await self.client.call_tool(tool, arguments)).content[0].text


def connection(where, on_message=None):
    async def elicit(_message, _response_type, _params, _context):
        return {"name": "Ada"}

    async def sample(_messages, _params, _context):
        return "Paris"

    return Client(
        where if KIND == "http" else StdioTransport(where, ["--stdio"]),
        mode="auto" if MODERN else "legacy",
        timeout=PATIENCE_SECONDS,
        elicitation_handler=elicit,
        sampling_handler=sample,
        roots=["file:///project"],
        message_handler=on_message,
    )


async def main():
    tell, heard = anyio.create_memory_object_stream(10)

    async def on_message(message):
        if isinstance(message, types.ResourceUpdatedNotification | types.ToolListChangedNotification):
            await tell.send(message)

    async with connection(TARGET, on_message) as client:
        features = Features(client, heard)
        for feature in FEATURES:
            print(json.dumps(await check(feature, getattr(features, feature.replace(" ", "_")))), flush=True)


async def check(feature, run):
    if feature in CANNOT:
        return {"feature": feature, "ok": None, "note": CANNOT[feature]}
    try:
        with anyio.fail_after(PATIENCE_SECONDS):
            await run()
        return {"feature": feature, "ok": True, "note": ""}
    except Exception as error:
        while hasattr(error, "exceptions"):
            error = error.exceptions[0]
        return {"feature": feature, "ok": False, "note": f"{type(error).__name__}: {error}"}


anyio.run(main)
