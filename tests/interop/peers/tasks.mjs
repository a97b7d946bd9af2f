// tasks.mjs WHICH URL: other people's clients call tools of examples/everything.py as tasks, over Streamable HTTP.
// WHICH is `sdk-1` (the TypeScript SDK 1.x and its experiment of 2025-11-25), or `legacy` or `modern`: the package that
// the extension's authors give, in that era; it comes with the inspector. Prints one JSON object: tool -> what it saw.

import { pathToFileURL } from 'url';
import { requirePeer } from './scenario.mjs';

const [which, url] = process.argv.slice(2);
const CALLS = {
  greet: { name: 'Bo' },
  slow_compute: { seconds: 0.1, label: 'x' },
  confirm_delete: { filename: 'f' },
  failing_job: {},
  protocol_error_job: {}
};
const info = { name: 'tasks', version: '1' };
const yes = { action: 'accept', content: { confirm: true } };

async function sdk1() {
  const { Client } = requirePeer('@modelcontextprotocol/sdk/client/index.js');
  const { StreamableHTTPClientTransport } = requirePeer('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const types = requirePeer('@modelcontextprotocol/sdk/types.js');
  const client = new Client(info, { capabilities: { elicitation: { form: {} } } });
  client.setRequestHandler(types.ElicitRequestSchema, () => yes);
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  await client.listTools();
  const seen = {};
  for (const [name, args] of Object.entries(CALLS)) {
    const options = name === 'greet' ? undefined : { task: { ttl: 60_000 } };
    const call = client.experimental.tasks.callToolStream({ name, arguments: args }, types.CallToolResultSchema, options);
    seen[name] = [];
    for await (const message of call) {
      const { status } = message.task ?? {};
      seen[name].push(status ?? message.result?.content[0].text ?? `${message.type}: ${message.error.message}`);
    }
  }
  seen.listed = (await client.experimental.tasks.listTasks()).tasks.map(({ status }) => status);
  await client.close();
  return seen;
}

async function extension(modern) {
  const { Client, StreamableHTTPClientTransport } = requirePeer('@modelcontextprotocol/client');
  const home = `${process.env.MCP_REF_PEERS}/node_modules/@modelcontextprotocol/ext-tasks/dist/client/index.js`;
  const { createApplicationInputHandler, createTaskSessionFromClient } = await import(pathToFileURL(home).href);
  const clientCapabilities = {
    elicitation: { form: {} },
    ...(modern ? { extensions: { 'io.modelcontextprotocol/tasks': {} } } : {})
  };
  const client = new Client(info, {
    capabilities: clientCapabilities,
    versionNegotiation: { mode: modern ? 'auto' : 'legacy' }
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const session = createTaskSessionFromClient(client, {
    endpointId: 'everything',
    onInputRequest: createApplicationInputHandler({ elicitation: async () => yes }),
    ...(modern
      ? { rawDispatch, v2RequestFraming: { protocolVersion: '2026-07-28', clientInfo: info, clientCapabilities } }
      : {})
  });
  const seen = { era: client.getProtocolEra() };
  for (const [name, args] of Object.entries(CALLS)) {
    try {
      const { outcome } = await (await session.callTool(name, args)).settle();
      const { result, task, error } = outcome;
      seen[name] = [outcome.status, result?.content[0].text ?? task?.statusMessage ?? error.message];
    } catch (error) {
      seen[name] = ['refused', error.message];
    }
  }
  await session.close();
  await client.close();
  return seen;
}

let ids = 0;

/** A request that stands alone: the SDK has no results of the type "task". */
async function rawDispatch(request) {
  const { name, taskId } = request.params;
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      Accept: 'application/json, text/event-stream',
      'Content-Type': 'application/json',
      'MCP-Protocol-Version': '2026-07-28',
      'Mcp-Method': request.method,
      'Mcp-Name': name ?? taskId
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: `raw-${++ids}`, ...request })
  });
  return response.json();
}

console.log(JSON.stringify(await (which === 'sdk-1' ? sdk1() : extension(which === 'modern'))));
