// Drives the AI SDK: drive_ai_sdk.mjs FRAMEWORK PLAN. It checks arguments against the schema before it calls.
import { appendFileSync, readFileSync } from "node:fs";
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";
import { asSchema } from "ai";

const plan = JSON.parse(readFileSync(process.argv[3], "utf8"));
const write = (entry) => appendFileSync(plan.log, JSON.stringify(entry) + "\n");
const [command, ...args] = plan.server;
const client = await createMCPClient({ transport: new StdioTransport({ command, args }) });
const tools = await client.tools();

for (const [name, tool] of Object.entries(tools)) {
  const { properties } = await asSchema(tool.inputSchema).jsonSchema;
  write({ converted: name, by: "AI SDK", wrong: properties ? null : "no properties" });
}
for (const { tool, mode, arguments: input } of plan.calls) {
  write({ begin: tool, mode, arguments: input });
  try {
    const checked = await asSchema(tools[tool].inputSchema).validate?.(input);
    if (checked && !checked.success) throw checked.error;
    await tools[tool].execute(checked?.value ?? input, { toolCallId: "call", messages: [] });
    write({ end: tool, raised: null });
  } catch (error) {
    write({ end: tool, raised: String(error) });
  }
}
await client.close();
