// What the programs for Node.js share.

import { createRequire } from 'node:module';

/** Loads a package of the folder of the peers. */
export const requirePeer = createRequire(`${process.env.MCP_REF_PEERS}/package.json`);
/** Serves web-standard requests, and prints the URL. */
export function listen(fetch) {
  const { serve } = requirePeer('@hono/node-server');
  serve({ fetch, hostname: '127.0.0.1', port: 0 }, ({ port }) => console.log(`http://127.0.0.1:${port}/mcp`));
}
