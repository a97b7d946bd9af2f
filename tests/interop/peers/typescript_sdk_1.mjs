// typescript_sdk_1.mjs COMMAND...: the official TypeScript SDK 1.x as a client of the server that COMMAND starts, or that
// is at a URL in its place: over HTTP+SSE where it ends in /sse, else over Streamable HTTP.
// This SDK knows the handshake only. Prints one JSON object: see scenario.mjs.

import { SCENARIO, WATCHED, elicited, main, requirePeer, sampled, until } from './scenario.mjs';

const { Client } = requirePeer('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = requirePeer('@modelcontextprotocol/sdk/client/stdio.js');
const { SSEClientTransport } = requirePeer('@modelcontextprotocol/sdk/client/sse.js');
const { StreamableHTTPClientTransport } = requirePeer('@modelcontextprotocol/sdk/client/streamableHttp.js');
const types = requirePeer('@modelcontextprotocol/sdk/types.js');

async function connect(seen) {
  const client = new Client(
    { name: 'typescript-sdk-1', version: '1' },
    { capabilities: { sampling: {}, elicitation: {}, roots: { listChanged: true } } }
  );
  client.setRequestHandler(types.CreateMessageRequestSchema, ({ params }) => {
    seen.sampling.push(params);
    return sampled(params);
  });
  client.setRequestHandler(types.ElicitRequestSchema, ({ params }) => {
    seen.elicitation.push(params);
    return elicited(params);
  });
  client.setRequestHandler(types.ListRootsRequestSchema, () => ({ roots: SCENARIO.roots }));
  client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => void seen.logs.push(params));
  client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, ({ params }) => void seen.updated.push(params.uri));

  const [command, ...args] = process.argv.slice(2);
  const transport = command.endsWith('/sse')
    ? new SSEClientTransport(new URL(command))
    : command.startsWith('http')
      ? new StreamableHTTPClientTransport(new URL(command))
      : new StdioClientTransport({ command, args, env: process.env });
  // The SDK keeps the version it negotiated to itself, but tells it to a transport that wants to know.
  let protocolVersion;
  const { setProtocolVersion } = transport;
  transport.setProtocolVersion = (version) => {
    protocolVersion = version;
    setProtocolVersion?.call(transport, version);
  };
  await client.connect(transport);

  const callTool = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
  return {
    client,
    initialize: {
      protocolVersion,
      serverInfo: client.getServerVersion(),
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions()
    },
    dialect: {
      era: 'legacy',
      callTool,
      async callLoggingAt(level, tool) {
        await client.setLoggingLevel(level);
        return callTool(tool, {});
      },
      async watch(touch) {
        await client.subscribeResource({ uri: WATCHED });
        await touch();
        await until(() => seen.updated.length > 0);
        await client.unsubscribeResource({ uri: WATCHED });
      }
    }
  };
}

await main(connect);
