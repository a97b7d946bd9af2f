// small_server.mjs stdio|streamable-http|stateless: what small_server.py is, made with the official TypeScript SDK 2.x,
// which has no HTTP+SSE. `stateless` is the SDK's own choice for servers on the web: no sessions.

import { randomUUID } from 'node:crypto';
import { listen } from './web.mjs';
import { requirePeer } from './scenario.mjs';

const {
  McpServer,
  ResourceTemplate,
  WebStandardStreamableHTTPServerTransport: HttpTransport,
  createMcpHandler,
  fromJsonSchema
} = requirePeer('@modelcontextprotocol/server');
const { StdioServerTransport } = requirePeer('@modelcontextprotocol/server/stdio');

const text = (value) => ({ content: [{ type: 'text', text: String(value) }] });
const typed = (value) => ({ ...text(value), structuredContent: { result: value } });
const object = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required });
const schema = (properties) => fromJsonSchema(object(properties));
const integer = { type: 'integer' };
const string = { type: 'string' };

function make() {
  const server = new McpServer({ name: 'small', version: '1' }, { capabilities: { logging: {} } });
  const outputSchema = schema({ result: integer });
  server.registerTool('add', { inputSchema: schema({ a: integer, b: integer }), outputSchema }, ({ a, b }) => typed(a + b));
  server.registerTool('ask', { inputSchema: schema({ question: string }) }, async ({ question }, { mcpReq }) => {
    const requestedSchema = object({ name: string, age: { ...integer, default: 30 } }, ['name']);
    const form = { mode: 'form', message: question, requestedSchema };
    const { action, content } = await mcpReq.elicitInput(form, { relatedRequestId: mcpReq.id });
    return text(`${action}: name='${content.name}' age=${content.age}`);
  });
  server.registerTool('count', { inputSchema: schema({ to: integer }), outputSchema }, async ({ to }, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (let step = 1; step <= to; step++) {
      await mcpReq.log('info', `step ${step}`);
      if (progressToken === undefined) continue;
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: step, total: to } });
    }
    return typed(to);
  });
  server.registerTool('fail', {}, () => {
    throw new Error('a bug of the server');
  });
  const template = new ResourceTemplate('config://{section}', { list: undefined });
  server.registerResource('config', template, {}, (uri, { section }) => ({
    contents: [{ uri: uri.href, text: `section ${section}` }]
  }));
  return server;
}

/** Sessions by their ids, each with a server of its own: what an application has to write by itself. */
function withSessions() {
  const sessions = new Map();
  return async (request) => {
    const known = request.headers.get('mcp-session-id');
    if (known !== null && !sessions.has(known)) return new Response(null, { status: 404 });
    let transport = sessions.get(known);
    if (transport === undefined) {
      transport = new HttpTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
        onsessionclosed: (id) => sessions.delete(id)
      });
      await make().connect(transport);
    }
    return transport.handleRequest(request);
  };
}

const transport = process.argv[2];
if (transport === 'stdio') await make().connect(new StdioServerTransport());
else if (transport === 'stateless') listen((request) => createMcpHandler(make).fetch(request));
else listen(withSessions());
