// The official TypeScript SDK 2: `typescript_sdk.mjs http|sse|stdio TOOLS` and `typescript_sdk.mjs client TARGET...`.

import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import { listen, requirePeer } from './web.mjs';

const [kind, ...rest] = process.argv.slice(2);
console.warn = () => {};

async function runClient([target, ...args]) {
  const { Client, StreamableHTTPClientTransport } = requirePeer('@modelcontextprotocol/client');
  const { StdioClientTransport } = requirePeer('@modelcontextprotocol/client/stdio');
  const options = { capabilities: {}, versionNegotiation: { mode: 'auto' } };
  const client = new Client({ name: 'bench', version: '1' }, options);
  await client.connect(
    target.startsWith('http')
      ? new StreamableHTTPClientTransport(new URL(target))
      : new StdioClientTransport({ command: target, args, env: process.env })
  );
  console.log('ready');
  const work = async (calls) => {
    while (calls--) await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } });
  };
  for await (const line of createInterface({ input: process.stdin })) {
    await Promise.all(Array.from({ length: 64 }, () => work(line / 64)));
    console.log('done');
  }
}

const sessions = new Map();
let notify;

const {
  McpServer,
  WebStandardStreamableHTTPServerTransport: Transport,
  createMcpHandler,
  fromJsonSchema
} = requirePeer('@modelcontextprotocol/server');
const object = (properties) => fromJsonSchema({ type: 'object', properties, required: Object.keys(properties) });
const integer = { type: 'integer' };
const inputSchema = object({ a: integer, b: integer });
const countSchema = object({ to: integer });
const outputSchema = object({ result: integer });
const result = (value) => ({ content: [{ type: 'text', text: String(value) }], structuredContent: { result: value } });

function make() {
  const server = new McpServer({ name: 'bench', version: '1' });
  server.registerTool('add', { inputSchema, outputSchema }, ({ a, b }) => result(a + b));
  server.registerTool('count', { inputSchema: countSchema, outputSchema }, async ({ to }, { mcpReq }) => {
    const { progressToken } = mcpReq._meta;
    for (let progress = 1; progress <= to; progress++) {
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: to } });
    }
    return result(to);
  });
  server.registerTool('join', {}, () => result(0));
  server.registerTool('announce', {}, () => {
    for (const { own } of sessions.values()) own.sendToolListChanged();
    notify.toolsChanged();
    return result(0);
  });
  for (let number = 0; number < rest[0]; number++) {
    const input = object({ a: integer, b: integer });
    server.registerTool(`tool_${number}`, { inputSchema: input, outputSchema }, ({ a, b }) => result(a + b + number));
  }
  return server;
}

function serveHttp() {
  const modern = createMcpHandler(make, { legacy: 'reject', responseMode: kind === 'http' ? 'json' : 'sse' });
  notify = modern.notify;
  listen(async (request) => {
    if (request.headers.get('mcp-protocol-version') === '2026-07-28') return modern.fetch(request);
    let session = sessions.get(request.headers.get('mcp-session-id'));
    if (session === undefined) {
      const own = make();
      const transport = new Transport({
        sessionIdGenerator: randomUUID,
        enableJsonResponse: kind === 'http',
        onsessioninitialized: (id) => sessions.set(id, session)
      });
      session = { own, transport };
      await own.connect(transport);
    }
    return session.transport.handleRequest(request);
  });
}

if (kind === 'client') await runClient(rest);
else if (kind === 'stdio') requirePeer('@modelcontextprotocol/server/stdio').serveStdio(make);
else serveHttp();
