// stateless_server.mjs stdio|streamable-http: what stateless_server.py is, made with the official TypeScript SDK 2.x.

import { listen } from './web.mjs';
import { requirePeer } from './scenario.mjs';

const { McpServer, completable, createMcpHandler, fromJsonSchema, inputRequired } = requirePeer(
  '@modelcontextprotocol/server'
);
const { serveStdio } = requirePeer('@modelcontextprotocol/server/stdio');
const { z } = requirePeer('zod');

const text = (value) => ({ content: [{ type: 'text', text: String(value) }] });
const object = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required });
const schema = (properties) => fromJsonSchema(object(properties));
const integer = { type: 'integer' };
const string = { type: 'string' };
const KEPT = { ttlMs: 60_000, cacheScope: 'public' };
const askForm = (message, field) =>
  inputRequired.elicit({ mode: 'form', message, requestedSchema: object({ [field]: string }) });

let reads = 0;
let notify;

function make() {
  const server = new McpServer(
    { name: 'stateless', version: '1' },
    {
      capabilities: { logging: {}, resources: { subscribe: true, listChanged: true } },
      instructions: 'Ask.',
      cacheHints: { 'tools/list': KEPT }
    }
  );
  const outputSchema = schema({ result: integer });
  server.registerTool('add', { inputSchema: schema({ a: integer, b: integer }), outputSchema }, ({ a, b }) => ({
    ...text(a + b),
    structuredContent: { result: a + b }
  }));
  const region = { ...string, 'x-mcp-header': 'Region' };
  server.registerTool('by_region', { inputSchema: schema({ region, query: string }) }, ({ region, query }) =>
    text(`${query} in ${region}`)
  );
  server.registerTool('plan_trip', {}, ({ mcpReq }) => {
    const state = mcpReq.requestState();
    const answers = mcpReq.inputResponses ?? {};
    if (state === undefined) {
      return inputRequired({ inputRequests: { where: askForm('Where to?', 'name') }, requestState: '1 \u2603' });
    }
    if (state === '1 \u2603') {
      const messages = [{ role: 'user', content: { type: 'text', text: 'How long?' } }];
      const inputRequests = {
        'how long': inputRequired.createMessage({ messages, maxTokens: 5 }),
        roots: inputRequired.listRoots()
      };
      return inputRequired({ inputRequests, requestState: `2 ${answers.where.content.name}` });
    }
    if (state.startsWith('2 ')) {
      const requestState = `3${state.slice(1)} ${answers['how long'].content.text} ${answers.roots.roots.length}`;
      return inputRequired({ inputRequests: { again: askForm('Sure?', 'name') }, requestState });
    }
    return text(`${state.slice(2)} ${answers.again.action}`);
  });
  server.registerTool('count', { inputSchema: schema({ to: integer }), outputSchema }, async ({ to }, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (let step = 1; step <= to; step++) {
      await mcpReq.log('info', `step ${step}`);
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: step, total: to } });
    }
    return { ...text(to), structuredContent: { result: to } };
  });
  server.registerTool('slow', {}, async ({ mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: 0, total: 60 } });
    await new Promise((resolve) => mcpReq.signal.addEventListener('abort', resolve));
    console.error('slow: cancelled');
    return text('cut short');
  });
  server.registerTool('touch', {}, () => {
    if (notify === undefined) {
      server.server.sendResourceUpdated({ uri: 'test://counted' });
      server.sendToolListChanged();
    } else {
      notify.resourceUpdated('test://counted');
      notify.toolsChanged();
    }
    return text('touched');
  });
  server.registerResource('counted', 'test://counted', { cacheHint: KEPT }, (uri) => ({
    contents: [{ uri: uri.href, text: String(++reads) }]
  }));
  const names = (value) => ['Ada', 'Alan'].filter((name) => name.startsWith(value));
  server.registerPrompt('greet', { argsSchema: z.object({ name: completable(z.string(), names) }) }, ({ name }, ctx) => {
    const how = ctx.mcpReq.inputResponses?.how;
    if (how === undefined) return inputRequired({ inputRequests: { how: askForm('How?', 'name') } });
    const content = { type: 'text', text: `Greet ${name}, ${how.content.name}.` };
    return { messages: [{ role: 'user', content }] };
  });
  return server;
}

if (process.argv[2] === 'stdio') serveStdio(make);
else {
  const handler = createMcpHandler(make);
  notify = handler.notify;
  listen((request) => handler.fetch(request));
}
