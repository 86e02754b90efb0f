"""Drives CrewAI's tools: drive_crewai.py FRAMEWORK PLAN. Its adapter sets every argument that was left out to null."""

import asyncio

from common import Plan
from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters


async def main(plan):
    with MCPServerAdapter(StdioServerParameters(command=plan.server[0], args=plan.server[1:])) as adapted:
        tools = {tool.name: tool for tool in adapted}
        for name, tool in tools.items():
            plan.convert("CrewAI", name, tool.args_schema.model_json_schema)

        async def call(name, arguments):
            tools[name].run(**arguments)

        await plan.run(call)


asyncio.run(main(Plan()))
