// mcp-lite, a server for Node.js: `mcp_lite.mjs http|sse TOOLS`.

import { listen } from './web.mjs';

const { InMemorySessionAdapter, McpServer, StreamableHttpTransport } = await import(
  `${process.env.MCP_REF_PEERS}/node_modules/mcp-lite/dist/index.js`
);
const [kind, tools] = process.argv.slice(2);

const integer = { type: 'integer' };
const object = (properties) => ({ type: 'object', properties, required: Object.keys(properties) });
const outputSchema = object({ result: integer });
const result = (value) => ({ content: [{ type: 'text', text: String(value) }], structuredContent: { result: value } });

const server = new McpServer({ name: 'bench', version: '1' });
server.tool('add', { inputSchema: object({ a: integer, b: integer }), outputSchema, handler: ({ a, b }) => result(a + b) });
server.tool('count', {
  inputSchema: object({ to: integer }),
  outputSchema,
  handler: async ({ to }, context) => {
    for (let progress = 1; progress <= to; progress++) await context.progress({ progress, total: to });
    return result(to);
  }
});
server.tool('join', { inputSchema: object({}), handler: () => result(0) });
let changes = 0;
server.tool('announce', {
  inputSchema: object({}),
  handler: () => {
    server.tool(`change_${++changes}`, { inputSchema: object({}), handler: () => result(0) });
    return result(0);
  }
});
for (let number = 0; number < tools; number++) {
  server.tool(`tool_${number}`, {
    inputSchema: object({ a: integer, b: integer }),
    outputSchema,
    handler: ({ a, b }) => result(a + b + number)
  });
}

const sessionAdapter = new InMemorySessionAdapter({ maxEventBufferSize: 1024 });
const handle = new StreamableHttpTransport({ sessionAdapter }).bind(server);
listen((request) => {
  if (kind === 'sse' || request.method === 'GET') return handle(request);
  const headers = new Headers(request.headers);
  headers.set('accept', 'application/json');
  return handle(new Request(request, { headers }));
});
