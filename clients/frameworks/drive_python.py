"""Drives LangChain, OpenAI Agents, pydantic-ai and google-genai: drive_python.py FRAMEWORK PLAN.

Each converts the tools as it does for a model, and then calls them with what a model would send.
"""

import asyncio
import json

from common import Plan


async def langchain(plan):
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langchain_mcp_adapters.tools import load_mcp_tools

    async with session_of(plan) as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}
        for name, tool in tools.items():
            plan.convert("LangChain, OpenAI strict", name, lambda tool=tool: convert_to_openai_tool(tool, strict=True))
        await plan.run(lambda name, arguments: tools[name].ainvoke(arguments))


async def openai_agents(plan, is_strict=False):
    from agents.mcp import MCPServerStdio, MCPUtil
    from agents.tool_context import ToolContext

    async with MCPServerStdio(params={"command": plan.server[0], "args": plan.server[1:]}) as server:
        listed = await server.list_tools()
        tools = {tool.name: MCPUtil.to_function_tool(tool, server, is_strict) for tool in listed}

        async def call(name, arguments):
            text = json.dumps(arguments)
            context = ToolContext(context=None, tool_name=name, tool_call_id="call", tool_arguments=text)
            await tools[name].on_invoke_tool(context, text)

        await plan.run(call, {name: tool.params_json_schema for name, tool in tools.items()} if is_strict else None)


async def openai_agents_strict(plan):
    await openai_agents(plan, is_strict=True)


async def pydantic_ai(plan):
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai import RunContext
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer
    from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer
    from pydantic_ai.usage import RunUsage

    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    async with MCPToolset(StdioTransport(command=plan.server[0], args=plan.server[1:])) as server:
        tools = await server.get_tools(context)
        for name, tool in tools.items():
            schema = tool.tool_def.parameters_json_schema
            plan.convert("pydantic-ai, OpenAI strict", name, lambda: OpenAIJsonSchemaTransformer(schema, strict=True).walk())
            plan.convert("pydantic-ai, Google", name, lambda: GoogleJsonSchemaTransformer(schema).walk())

        async def call(name, arguments):
            checked = tools[name].args_validator.validate_python(arguments)
            await server.call_tool(name, checked, context, tools[name])

        await plan.run(call)


async def google_genai(plan):
    from google.genai import types
    from google.genai._adapters import McpToGenAiToolAdapter
    from google.genai._mcp_utils import mcp_to_gemini_tools

    async with session_of(plan) as session:
        listed = await session.list_tools()
        for tool in listed.tools:
            plan.convert("google-genai", tool.name, lambda tool=tool: mcp_to_gemini_tools([tool]))
        adapter = McpToGenAiToolAdapter(session, listed)

        async def call(name, arguments):
            await adapter.call_tool(types.FunctionCall(name=name, args=arguments))

        await plan.run(call)


class session_of:
    """A session of the Python SDK, which these build upon."""

    def __init__(self, plan):
        self.plan = plan

    async def __aenter__(self):
        from contextlib import AsyncExitStack

        from mcp import ClientSession, StdioServerParameters
        from mcp.client.stdio import stdio_client

        self.stack = AsyncExitStack()
        server = StdioServerParameters(command=self.plan.server[0], args=self.plan.server[1:])
        streams = await self.stack.enter_async_context(stdio_client(server))
        session = await self.stack.enter_async_context(ClientSession(*streams))
        await session.initialize()
        return session

    async def __aexit__(self, *_):
        await self.stack.aclose()


if __name__ == "__main__":
    plan = Plan()
    asyncio.run(globals()[plan.framework](plan))
