"""Does what a plan says with the Python SDK, and prints what came of each step as a line of JSON.

    python drive.py REVISION PLAN NAMES URIS http URL
    python drive.py REVISION PLAN NAMES URIS stdio PROGRAM ARGUMENT…

NAMES and URIS stand in front of names and URIs.
"""

import json
import os
import sys
import warnings
from contextlib import AsyncExitStack

import anyio
from mcp import Client, StdioServerParameters, types
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

# What the newest revision deprecates is what the older ones are made of.
warnings.simplefilter("ignore", MCPDeprecationWarning)

REVISION, PLAN, NAMES, URIS, KIND, TARGET, *ARGUMENTS = sys.argv[1:]
MODERN = REVISION == "2026-07-28"
# Only bounds a failure: what is not heard within this time is not told at all.
PATIENCE_SECONDS = 10
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


class Walk:
    """One method for each kind of step."""

    def __init__(self):
        self.client, self.told, self.asked = None, [], []
        self.listening = AsyncExitStack()
        self.tasks = None

    async def tools(self, _step, _got):
        return await self.client.list_tools()

    async def resources(self, _step, _got):
        return await self.client.list_resources()

    async def templates(self, _step, _got):
        return await self.client.list_resource_templates()

    async def prompts(self, _step, _got):
        return await self.client.list_prompts()

    async def read(self, step, _got):
        return await self.client.read_resource(URIS + step["uri"])

    async def prompt(self, step, _got):
        return await self.client.get_prompt(NAMES + step["name"], step["arguments"])

    async def level(self, step, _got):
        return None if MODERN else await self.client.set_logging_level(step["level"])

    async def call(self, step, got):
        async def on_progress(progress, total, message):
            got["progress"].append({"progress": progress, "total": total, "message": message})
            if step["stopAt"] is not None and len(got["progress"]) >= step["stopAt"]:
                scope.cancel()

        on_progress = on_progress if step["progress"] else None
        meta = {LOG_LEVEL: step["logLevel"]} if MODERN and step["logLevel"] else None
        with anyio.CancelScope() as scope:
            name, arguments = NAMES + step["name"], step["arguments"]
            return await self.client.call_tool(name, arguments, progress_callback=on_progress, meta=meta)
        got["error"] = "stopped"

    async def complete(self, step, _got):
        if step["kind"] == "prompt":
            ref = types.PromptReference(type="ref/prompt", name=NAMES + step["name"])
        else:
            ref = types.ResourceTemplateReference(type="ref/resource", uri=URIS + step["name"])
        argument = {"name": step["argument"], "value": step["value"]}
        return await self.client.complete(ref, argument, step["context"] or None)

    async def subscribe(self, step, _got):
        if not MODERN:
            return await self.client.subscribe_resource(URIS + step["uri"])
        await self.listen(resource_subscriptions=[URIS + step["uri"]])

    async def unsubscribe(self, step, _got):
        if not MODERN:
            return await self.client.unsubscribe_resource(URIS + step["uri"])
        await self.listening.aclose()
        await self.listen(resources_list_changed=True)

    async def listen(self, **filter):
        events = await self.listening.enter_async_context(self.client.listen(**filter))

        async def hear():
            async for event in events:
                self.hear_event(event)

        self.tasks.start_soon(hear)

    def hear_event(self, event):
        uri = getattr(event, "uri", None)
        method = "notifications/resources/updated" if uri else "notifications/resources/list_changed"
        self.told.append({"method": method, "params": {"uri": uri} if uri else None})

    async def on_message(self, message):
        if hasattr(message, "method") and str(message.method).startswith("notifications/"):
            self.told.append(plain(message))

    async def run(self, step):
        got, self.asked = {"progress": []}, []
        if step["hear"]:
            self.told = []
        try:
            got["result"] = plain(await getattr(self, step["do"])(step, got)) or {}
        except MCPError as error:
            got["error"] = {"code": error.code, "message": error.message, "data": error.data}
        except Exception as error:
            got["error"] = f"{type(error).__name__}: {error}"
        if step["hear"]:
            got["told"] = await self.hear(step["hear"])
        if got.get("error") == "stopped":
            got.pop("result")
        return {**got, "asked": [asked for asked in self.asked if asked["method"] != "roots/list"]}

    async def hear(self, method):
        for _ in range(PATIENCE_SECONDS * 50):
            heard = [message for message in self.told if message["method"] == method]
            if heard:
                break
            await anyio.sleep(0.02)
        return heard[:1]

    async def elicit(self, _context, params):
        self.asked.append({"method": "elicitation/create", "params": plain(params)})
        if getattr(params, "mode", None) == "url":
            return types.ElicitResult(action="accept")
        return types.ElicitResult(action="accept", content={"name": "Ada", "check": True, "integer": 7})

    async def sample(self, _context, params):
        self.asked.append({"method": "sampling/createMessage", "params": plain(params)})
        text = types.TextContent(type="text", text="Paris")
        return types.CreateMessageResult(role="assistant", content=text, model="none")

    async def roots(self, _context):
        return types.ListRootsResult(roots=[types.Root(uri="file:///project", name="project")])

    def connection(self):
        server = TARGET
        if KIND == "stdio":
            server = StdioServerParameters(command=TARGET, args=ARGUMENTS, env=dict(os.environ))
        return Client(
            server,
            mode="auto" if MODERN else "legacy",
            read_timeout_seconds=60,
            elicitation_callback=self.elicit,
            sampling_callback=self.sample,
            list_roots_callback=self.roots,
            message_handler=self.on_message,
        )


def plain(model):
    if model is None:
        return None
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main():
    walk = Walk()
    async with walk.connection() as client, anyio.create_task_group() as tasks:
        assert client.protocol_version == REVISION, client.protocol_version
        walk.client, walk.tasks = client, tasks
        for step in json.loads(PLAN):
            print(json.dumps(await walk.run(step)), flush=True)
        tasks.cancel_scope.cancel()
        await walk.listening.aclose()
    # What a failure left open must not keep the process.
    os._exit(0)


anyio.run(main)
