// A child of chaos-host with the TypeScript SDK: calls tools until stdin ends, and prints what came of each call as a line of JSON.
//
//     node child.mjs LABEL REVISION PROGRAM
//
// For 1.x and 2.x: it runs beside the packages of one of them.

import { existsSync } from 'node:fs';

const [label, revision, program] = process.argv.slice(2);
const isOne = existsSync(new URL('node_modules/@modelcontextprotocol/sdk', import.meta.url));
const sdk = isOne ? '@modelcontextprotocol/sdk/client/' : '@modelcontextprotocol/client';
const { Client } = await import(isOne ? `${sdk}index.js` : sdk);
const { StdioClientTransport } = await import(isOne ? `${sdk}stdio.js` : `${sdk}/stdio`);
const WORKERS = 3;
// A call that was not sent waits for a host for 30 s, and then it is told so.
const DEADLINE_MS = 40_000;
const HOUR_MS = 3_600_000;

const stop = new AbortController();
let [numbers, isOver] = [0, false];

const negotiation = { mode: revision === '2026-07-28' ? { pin: revision } : 'legacy' };
const client = new Client({ name: 'chaos', version: '0' }, isOne ? {} : { versionNegotiation: negotiation });
client.onerror = error => say({ wrong: `onerror: ${error.message}` });
client.onclose = () => say({ wrong: 'the connection was closed' });
// The SDK passes on hardly any variable, so the proxy finds its identity by the processes above it.
await client.connect(new StdioClientTransport({ command: program, args: ['proxy'], stderr: 'inherit' }));

// Keeps one call waiting at all times, so that a host never ends without one.
const waiting = repeat('wait', () => ({}), { timeout: HOUR_MS, signal: stop.signal });
const noting = Array.from({ length: WORKERS }, () =>
    repeat('note', () => ({ key: `${label}-${++numbers}` }), { timeout: DEADLINE_MS })
);
process.stdin.resume().on('end', () => (isOver = true));
await Promise.all(noting);
stop.abort();
await waiting;
client.onclose = undefined;
await client.close();
say({ done: true });

async function repeat(tool, args, options) {
    while (!isOver) {
        const [params, begin] = [{ name: tool, arguments: args() }, performance.now()];
        const outcome = await call(params, options);
        say({ ...outcome, key: params.arguments.key ?? tool, seconds: (performance.now() - begin) / 1000 });
    }
}

async function call(params, options) {
    try {
        const result = await (isOne ? client.callTool(params, undefined, options) : client.callTool(params, options));
        return { [result.isError ? 'wrong' : 'result']: result.content[0].text };
    } catch (error) {
        if (stop.signal.aborted) return { lost: 'this client has ended' };
        return { [error.data?.retriable === true ? 'lost' : 'wrong']: error.message };
    }
}

function say(words) {
    console.log(JSON.stringify(words));
}
