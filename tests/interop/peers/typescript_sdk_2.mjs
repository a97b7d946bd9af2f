// typescript_sdk_2.mjs ERA COMMAND...: the official TypeScript SDK 2.x as a client of the server that COMMAND starts, or that
// is at a URL in its place: over HTTP+SSE where it ends in /sse, else over Streamable HTTP.
// ERA is `legacy` for the handshake, or `auto` for a client that asks with server/discover first and speaks the
// newest revision to a server that offers it. Prints one JSON object: see scenario.mjs.

import { SCENARIO, WATCHED, elicited, main, requirePeer, sampled, until } from './scenario.mjs';

const { Client, SSEClientTransport, StreamableHTTPClientTransport } = requirePeer('@modelcontextprotocol/client');
const { StdioClientTransport } = requirePeer('@modelcontextprotocol/client/stdio');

const [era, command, ...args] = process.argv.slice(2);

async function connect(seen) {
  const client = new Client(
    { name: 'typescript-sdk-2', version: '2' },
    {
      capabilities: { sampling: {}, elicitation: {}, roots: { listChanged: true } },
      versionNegotiation: { mode: era === 'legacy' ? 'legacy' : 'auto' }
    }
  );
  client.setRequestHandler('sampling/createMessage', ({ params }) => {
    seen.sampling.push(params);
    return sampled(params);
  });
  client.setRequestHandler('elicitation/create', ({ params }) => {
    seen.elicitation.push(params);
    return elicited(params);
  });
  client.setRequestHandler('roots/list', () => ({ roots: SCENARIO.roots }));
  client.setNotificationHandler('notifications/message', ({ params }) => void seen.logs.push(params));
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void seen.updated.push(params.uri));

  const transport = command.endsWith('/sse')
    ? new SSEClientTransport(new URL(command))
    : command.startsWith('http')
      ? new StreamableHTTPClientTransport(new URL(command))
      : new StdioClientTransport({ command, args, env: process.env });
  await client.connect(transport);

  const callTool = (name, args, options) => client.callTool({ name, arguments: args }, options);
  const modern = client.getProtocolEra() === 'modern';
  return {
    client,
    initialize: {
      protocolVersion: client.getNegotiatedProtocolVersion(),
      serverInfo: client.getServerVersion(),
      capabilities: client.getServerCapabilities(),
      instructions: client.getInstructions()
    },
    dialect: {
      era: client.getProtocolEra(),
      callTool,
      async callLoggingAt(level, tool) {
        const _meta = { 'io.modelcontextprotocol/logLevel': level };
        if (modern) return client.callTool({ name: tool, arguments: {}, _meta });
        await client.setLoggingLevel(level);
        return callTool(tool, {});
      },
      async watch(touch) {
        const subscription = modern
          ? await client.listen({ resourceSubscriptions: [WATCHED] })
          : await client.subscribeResource({ uri: WATCHED });
        await touch();
        await until(() => seen.updated.length > 0);
        await (modern ? subscription.close() : client.unsubscribeResource({ uri: WATCHED }));
      }
    }
  };
}

await main(connect);
