// Does what a plan says with the TypeScript SDK, and prints what came of each step as a line of JSON.
//
//     node walk.mjs REVISION PLAN NAMES URIS http URL
//     node walk.mjs REVISION PLAN NAMES URIS stdio PROGRAM ARGUMENT…
//
// NAMES and URIS stand in front of names and URIs. For 1.x and 2.x: it runs beside the packages of one of them.

import { existsSync } from 'node:fs';

const [revision, planned, names, uris, kind, target, ...args] = process.argv.slice(2);
const isOne = existsSync(new URL('node_modules/@modelcontextprotocol/sdk', import.meta.url));
const modern = revision === '2026-07-28';
const { Client, StdioClientTransport, StreamableHTTPClientTransport, schemas } = await (isOne ? one() : two());
// Only bounds a failure: what is not heard within this time is not told at all.
const PATIENCE_MS = 10_000;
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
const ANSWERS = {
    'elicitation/create': request =>
        request.params.mode === 'url' ? { action: 'accept' } : { action: 'accept', content: { name: 'Ada', check: true, integer: 7 } },
    'sampling/createMessage': () => ({ model: 'none', role: 'assistant', content: { type: 'text', text: 'Paris' } }),
    'roots/list': () => ({ roots: [{ uri: 'file:///project', name: 'project' }] })
};
const HEARD = ['message', 'resources/updated', 'resources/list_changed', 'tools/list_changed', 'prompts/list_changed'];

// What is told while a step is done, and who waits for it.
let told = [];
let asked = [];
let tell = () => {};
let listening;

const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true } };
const versionNegotiation = { mode: modern ? { pin: revision } : 'legacy' };
const client = new Client({ name: 'walk', version: '0' }, { capabilities, ...(isOne ? {} : { versionNegotiation }) });
for (const [method, answer] of Object.entries(ANSWERS)) {
    client.setRequestHandler(schemas(method), request => {
        asked.push({ method, params: request.params });
        return answer(request);
    });
}
for (const short of HEARD) {
    const method = `notifications/${short}`;
    client.setNotificationHandler(schemas(method), ({ params }) => {
        told.push({ method, params });
        tell();
    });
}

const steps = {
    tools: () => client.listTools(),
    resources: () => client.listResources(),
    templates: () => client.listResourceTemplates(),
    prompts: () => client.listPrompts(),
    read: step => client.readResource({ uri: uris + step.uri }),
    prompt: step => client.getPrompt({ name: names + step.name, arguments: step.arguments }),
    level: step => (modern ? {} : client.setLoggingLevel(step.level)),
    async call(step, got) {
        const stop = new AbortController();
        const onprogress = report => {
            got.progress.push(report);
            if (step.stopAt !== null && got.progress.length >= step.stopAt) stop.abort('enough');
        };
        const options = { signal: stop.signal, ...(step.progress ? { onprogress } : {}) };
        const params = { name: names + step.name, arguments: step.arguments };
        if (modern && step.logLevel) params._meta = { [LOG_LEVEL]: step.logLevel };
        return isOne ? client.callTool(params, undefined, options) : client.callTool(params, options);
    },
    complete(step) {
        const ref = step.kind === 'prompt' ? { type: 'ref/prompt', name: names + step.name } : { type: 'ref/resource', uri: uris + step.name };
        const params = { ref, argument: { name: step.argument, value: step.value } };
        return client.complete({ ...params, ...(Object.keys(step.context).length ? { context: { arguments: step.context } } : {}) });
    },
    async subscribe(step) {
        if (!modern) return client.subscribeResource({ uri: uris + step.uri });
        listening = await client.listen({ resourceSubscriptions: [uris + step.uri] });
        return {};
    },
    async unsubscribe(step) {
        if (!modern) return client.unsubscribeResource({ uri: uris + step.uri });
        await listening.close();
        listening = await client.listen({ resourcesListChanged: true, toolsListChanged: true });
        return {};
    }
};

const transport =
    kind === 'http' ? new StreamableHTTPClientTransport(new URL(target)) : new StdioClientTransport({ command: target, args, stderr: 'ignore' });
await client.connect(transport);
for (const step of JSON.parse(planned)) console.log(JSON.stringify(await run(step)));
await client.close();
// Streams that a failure left open must not keep the process.
process.exit(0);

async function run(step) {
    const got = { progress: [] };
    asked = [];
    if (step.hear) told = [];
    try {
        got.result = (await steps[step.do](step, got)) ?? {};
    } catch (error) {
        got.error = step.stopAt ? 'stopped' : { code: error.code, message: error.message, data: error.data };
    }
    if (step.hear) got.told = await hear(step.hear);
    return { ...got, asked: asked.filter(({ method }) => method !== 'roots/list') };
}

async function hear(method) {
    const heard = () => told.filter(message => message.method === method).slice(0, 1);
    const until = Date.now() + PATIENCE_MS;
    while (heard().length === 0 && Date.now() < until) {
        await new Promise(resolve => {
            tell = resolve;
            setTimeout(resolve, PATIENCE_MS / 10);
        });
    }
    return heard();
}

async function one() {
    const [{ Client }, { StdioClientTransport }, { StreamableHTTPClientTransport }, types] = await Promise.all([
        import('@modelcontextprotocol/sdk/client/index.js'),
        import('@modelcontextprotocol/sdk/client/stdio.js'),
        import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
        import('@modelcontextprotocol/sdk/types.js')
    ]);
    const all = Object.values(types).filter(value => value?.shape?.method?.value);
    const schemas = method => all.find(schema => schema.shape.method.value === method);
    return { Client, StdioClientTransport, StreamableHTTPClientTransport, schemas };
}

async function two() {
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
    return { Client, StdioClientTransport, StreamableHTTPClientTransport, schemas: method => method };
}
