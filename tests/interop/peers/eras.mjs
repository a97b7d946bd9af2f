// eras.mjs COMMAND...: what eras.py does, with the official TypeScript SDK 2.

import { requirePeer } from './scenario.mjs';

const { Client, StreamableHTTPClientTransport } = requirePeer('@modelcontextprotocol/client');
const { StdioClientTransport } = requirePeer('@modelcontextprotocol/client/stdio');

const [command, ...args] = process.argv.slice(2);

async function outcome(mode) {
  const client = new Client({ name: 'eras', version: '1' }, { capabilities: {}, versionNegotiation: { mode } });
  const transport = command.startsWith('http')
    ? new StreamableHTTPClientTransport(new URL(command))
    : new StdioClientTransport({ command, args, env: process.env });
  try {
    await client.connect(transport);
    await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } });
    return client.getNegotiatedProtocolVersion();
  } catch (error) {
    // Over HTTP, this SDK gives its user the response as text.
    return typeof error.code === 'number' ? error.code : Number(/"code":(-\d+)/.exec(error.message)?.[1]);
  } finally {
    await client.close();
  }
}

const outcomes = [];
for (const mode of [{ pin: '2026-07-28' }, 'auto', 'legacy']) outcomes.push(await outcome(mode));
console.log(JSON.stringify(outcomes));
