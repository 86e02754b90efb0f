"""Drives CAMEL: drive_camel.py FRAMEWORK PLAN. Its functions have null for every argument that is not required."""

import asyncio

from camel.toolkits import MCPToolkit
from common import Plan


async def main(plan):
    server = {"command": plan.server[0], "args": plan.server[1:]}
    async with MCPToolkit(config_dict={"mcpServers": {"lmcp": server}}) as toolkit:
        tools = {tool.get_function_name(): tool for tool in toolkit.get_tools()}
        for name, tool in tools.items():
            plan.convert("CAMEL, OpenAI strict", name, tool.get_openai_tool_schema)

        async def call(name, arguments):
            await tools[name].func.async_call(**arguments)

        await plan.run(call)


asyncio.run(main(Plan()))
