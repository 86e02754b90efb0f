"""A server of FastMCP with a tool for each feature: on stdio, or with a port as its argument over HTTP; then `sse` is HTTP+SSE."""

import sys
from dataclasses import dataclass

import anyio
from fastmcp import Context, FastMCP

server = FastMCP("fastmcp")


@dataclass
class Name:
    name: str


@server.tool
async def echo(message: str) -> str:
    return message


@server.tool
async def work(steps: int, ctx: Context) -> str:
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps)
        await anyio.sleep(0.05)
    return "worked"


@server.tool
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Who?", Name)
    return answer.action


@server.resource("fastmcp://text")
def text() -> str:
    return "text"


@server.prompt
def hello() -> str:
    return "hello"


if len(sys.argv) > 1:
    server.run("sse" if "sse" in sys.argv else "http", port=int(sys.argv[1]), show_banner=False)
else:
    server.run("stdio", show_banner=False)
