// Calls of `echo` with the client of the TypeScript SDK, for bench/: CALLS AT_ONCE http URL, or CALLS AT_ONCE stdio PROGRAM ARGUMENT…
// The driver looks at the process while it waits for a line: before the calls, and after them.

import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [calls, atOnce, kind, target, ...args] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function stop(at) {
    console.log(at);
    await lines.next();
}

async function call(number) {
    const text = `call number ${number}, and some more words to carry`;
    const result = await client.callTool({ name: 'echo', arguments: { text } });
    assert.equal(result.content[0].text, text);
}

async function caller(first) {
    for (let number = first; number < calls; number += Number(atOnce)) await call(number);
}

const client = new Client({ name: 'calls', version: '0' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
const transport =
    kind === 'http' ? new StreamableHTTPClientTransport(new URL(target)) : new StdioClientTransport({ command: target, args });
await client.connect(transport);
await call(0);
await stop('ready');
await Promise.all(Array.from({ length: Number(atOnce) }, (_, first) => caller(first)));
await stop('done');
process.exit();
