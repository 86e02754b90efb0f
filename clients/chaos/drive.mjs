// Calls tools through a proxy with the TypeScript SDK until stdin ends, and prints what came of it as lines of JSON.
// Bytes on stdin are counted, so that whoever wrote one knows what came after it.
//
//     node chaos.mjs REVISION PROGRAM SOCKET
//
// For 1.x and 2.x: it runs beside the packages of one of them.

import { existsSync } from 'node:fs';

const [revision, program, socket] = process.argv.slice(2);
const isOne = existsSync(new URL('node_modules/@modelcontextprotocol/sdk', import.meta.url));
const sdk = isOne ? '@modelcontextprotocol/sdk/client/' : '@modelcontextprotocol/client';
const { Client } = await import(isOne ? `${sdk}index.js` : sdk);
const { StdioClientTransport } = await import(isOne ? `${sdk}stdio.js` : `${sdk}/stdio`);
const WORKERS = 8;
// Longer than any run: what takes so long was forgotten.
const PATIENCE_MS = 600_000;

const seen = { results: 0, lost: 0, marks: 0, wrong: [] };
const stop = new AbortController();

const negotiation = { mode: revision === '2026-07-28' ? { pin: revision } : 'legacy' };
const client = new Client({ name: 'chaos', version: '0' }, isOne ? {} : { versionNegotiation: negotiation });
client.onerror = error => seen.wrong.push(`onerror: ${error.message}`);
client.onclose = () => seen.wrong.push('the connection was closed');
await client.connect(new StdioClientTransport({ command: program, args: ['proxy', socket], stderr: 'inherit' }));

const workers = Array.from({ length: WORKERS }, (_, worker) => repeat('echo', { text: `worker ${worker}` }, {}));
// This call waits at all times, so that a server is never killed without one.
workers.push(repeat('wait', { seconds: 300 }, { signal: stop.signal }));
process.stdin.on('data', text => (seen.marks += text.length)).on('end', () => stop.abort());
await Promise.all(workers);
// After all that it is still the same connection.
await call('echo', { text: 'last' }, {});
client.onclose = undefined;
await client.close();
report(true);

async function repeat(tool, args, more) {
    while (!stop.signal.aborted && seen.wrong.length === 0) await call(tool, args, more);
}

async function call(tool, args, more) {
    const [params, options] = [{ name: tool, arguments: args }, { timeout: PATIENCE_MS, ...more }];
    try {
        const result = await (isOne ? client.callTool(params, undefined, options) : client.callTool(params, options));
        if (result.isError || result.content[0].text !== args.text) seen.wrong.push(JSON.stringify(result));
        seen.results += 1;
    } catch (error) {
        if (error.data?.retriable === true) seen.lost += 1;
        else if (!stop.signal.aborted) seen.wrong.push(`${tool}: ${error.message}`);
    }
    report(false);
}

function report(done) {
    console.log(JSON.stringify({ ...seen, done }));
}
