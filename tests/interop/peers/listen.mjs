// listen.mjs URL: the official TypeScript SDK 2 listens for changes, and says when that begins and how it ends.

import { requirePeer } from './scenario.mjs';

const { Client, StreamableHTTPClientTransport } = requirePeer('@modelcontextprotocol/client');

const client = new Client(
  { name: 'listen', version: '1' },
  { capabilities: {}, versionNegotiation: { mode: 'auto' } }
);
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const subscription = await client.listen({ toolsListChanged: true });
console.log('listening');
console.log(await subscription.closed);
await client.close();
