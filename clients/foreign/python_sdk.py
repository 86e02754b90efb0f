"""A server of the Python SDK with a tool for each feature: on stdio, or with a port as its argument over HTTP; then `sse` is HTTP+SSE."""

import sys

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

server = MCPServer("python")


class Name(BaseModel):
    name: str


@server.tool()
async def echo(message: str) -> str:
    return message


@server.tool()
async def work(steps: int, ctx: Context) -> str:
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps)
        await anyio.sleep(0.05)
    return "worked"


def asks(ctx):
    """Revisions without sessions are asked by the answer to their request."""
    return ctx.protocol_version >= "2026"


def by_answer(ctx, kind, params):
    if ctx.input_responses:
        return ctx.input_responses["it"]
    return InputRequiredResult(inputRequests={"it": kind(params=params)})


@server.tool(structured_output=False)
async def ask(ctx: Context):
    if not asks(ctx):
        answer = await ctx.elicit("Who?", Name)
        return f"Hello, {answer.data.name}!"
    form = ElicitRequestFormParams(message="Who?", requestedSchema=Name.model_json_schema())
    answer = by_answer(ctx, ElicitRequest, form)
    return answer if isinstance(answer, InputRequiredResult) else "Hello!"


@server.tool(structured_output=False)
async def sample(ctx: Context):
    messages = [SamplingMessage(role="user", content=TextContent(type="text", text="hm"))]
    if not asks(ctx):
        await ctx.session.create_message(messages, max_tokens=5)
        return "sampled"
    params = CreateMessageRequestParams(messages=messages, maxTokens=5)
    answer = by_answer(ctx, CreateMessageRequest, params)
    return answer if isinstance(answer, InputRequiredResult) else "sampled"


@server.tool(structured_output=False)
async def folders(ctx: Context):
    if not asks(ctx):
        await ctx.session.list_roots()
        return "listed"
    answer = by_answer(ctx, ListRootsRequest, None)
    return answer if isinstance(answer, InputRequiredResult) else "listed"


@server.resource("python://text")
def text() -> str:
    return "text"


@server.tool()
async def touch(ctx: Context) -> str:
    await ctx.notify_resource_updated("python://text")
    return "touched"


@server.prompt()
def hello() -> str:
    return "hello"


if len(sys.argv) > 1:
    server.run("sse" if "sse" in sys.argv else "streamable-http", port=int(sys.argv[1]))
else:
    server.run("stdio")
