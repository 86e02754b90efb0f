// Drives the TypeScript SDK 2.x through every feature, and prints one line of JSON for each.
//
//     node drive.mjs REVISION stdio PROGRAM
//     node drive.mjs REVISION http URL CUT_URL     (CUT_URL leads through a proxy that cuts the stream of `slow`)

import assert from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [revision, kind, target, cutUrl] = process.argv.slice(2);
const modern = revision === '2026-07-28';
const NOTE = 'clients://note';
// Only bounds a failure: nothing waits for it.
const PATIENCE_MS = 20_000;

const features = {
    async connect() {
        await client.connect(transport(target));
        assert.equal(client.getServerVersion().name, 'clients-server');
        assert.equal(client.getNegotiatedProtocolVersion(), revision);
    },
    async list() {
        const tools = (await client.listTools()).tools.map(tool => tool.name);
        assert.ok(tools.includes('echo') && tools.includes('next'));
        assert.equal((await client.listResources()).resources[0].uri, NOTE);
        assert.equal((await client.listPrompts()).prompts[0].name, 'hello');
    },
    async call() {
        assert.equal(await call('echo', { text: 'grüße' }), 'grüße');
    },
    async 'structured output'() {
        const result = await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } });
        assert.deepEqual(result.structuredContent, { sum: 5 });
    },
    async progress() {
        const seen = [];
        const onprogress = ({ progress, total, message }) => {
            seen.push([progress, total, message]);
            call('next');
        };
        await client.callTool({ name: 'count' }, { onprogress });
        assert.deepEqual(seen, [[1, 3, 'one'], [2, 3, 'two'], [3, 3, 'three']]);
    },
    async cancel() {
        const stop = new AbortController();
        const options = { signal: stop.signal, onprogress: () => stop.abort() };
        await assert.rejects(client.callTool({ name: 'wait' }, options));
        assert.equal(await call('cancelled'), '1');
    },
    async elicitation() {
        assert.equal(await call('greet'), 'Hello, Ada!');
    },
    async sampling() {
        assert.equal(await call('capital'), 'Paris');
    },
    async roots() {
        assert.equal(await call('folders'), 'file:///project');
    },
    async subscribe() {
        const heard = notification('notifications/resources/updated');
        if (modern) await client.listen({ resourceSubscriptions: [NOTE] });
        else await client.subscribeResource({ uri: NOTE });
        await call('touch');
        assert.equal((await heard).params.uri, NOTE);
    },
    async 'list changed'() {
        const heard = notification('notifications/tools/list_changed');
        if (modern) await client.listen({ toolsListChanged: true });
        await call('grow');
        await heard;
        assert.ok((await client.listTools()).tools.some(tool => tool.name === 'grown'));
    },
    async resume() {
        const client = newClient();
        await client.connect(transport(cutUrl));
        // By the time the report is here, the stream behind it is gone: the result can only come over another one.
        const onprogress = () => client.callTool({ name: 'next' });
        const result = await client.callTool({ name: 'slow' }, { onprogress });
        assert.equal(result.content[0].text, 'still here');
        await client.close();
    }
};

const cannot = {};
if (modern) cannot.resume = 'the revision has no resumption: a stream that ends is a request that is cancelled';
else if (kind === 'stdio') cannot.resume = 'stdio has no stream that could be resumed';

const client = newClient();

function newClient() {
    const client = new Client(
        { name: 'typescript-2', version: '0' },
        {
            capabilities: { elicitation: {}, sampling: {}, roots: {} },
            versionNegotiation: { mode: modern ? { pin: revision } : 'legacy' }
        }
    );
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { name: 'Ada' } }));
    client.setRequestHandler('sampling/createMessage', () => ({
        model: 'none',
        role: 'assistant',
        content: { type: 'text', text: 'Paris' }
    }));
    client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///project' }] }));
    return client;
}

function transport(where) {
    if (kind === 'stdio') return new StdioClientTransport({ command: where, args: ['--stdio'] });
    return new StreamableHTTPClientTransport(new URL(where));
}

function notification(method) {
    return new Promise(resolve => client.setNotificationHandler(method, resolve));
}

async function call(name, args = {}) {
    const result = await client.callTool({ name, arguments: args });
    return result.content[0].text;
}

function within(promise) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`nothing within ${PATIENCE_MS / 1000} s`)), PATIENCE_MS);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

for (const [feature, run] of Object.entries(features)) {
    let result = { feature, ok: true, note: '' };
    if (cannot[feature]) {
        result = { feature, ok: null, note: cannot[feature] };
    } else {
        try {
            await within(run());
        } catch (error) {
            result = { feature, ok: false, note: String(error.message ?? error) };
        }
    }
    console.log(JSON.stringify(result));
}
await client.close();
// Streams that a failure left open must not keep the process.
process.exit(0);
