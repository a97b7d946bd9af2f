// protected_client.mjs MAJOR ERA URL PASSWORD: a client of a protected server, made with the official TypeScript SDK,
// 1.x or 2.x. ERA is `legacy`, or `auto` for the newest revision. The script plays the browser: it posts the consent
// form. Prints one JSON object.

import { requirePeer } from './scenario.mjs';

const [major, era, url, password] = process.argv.slice(2);
const { Client } = requirePeer(major === '1' ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client');
const { StreamableHTTPClientTransport } = requirePeer(
  major === '1' ? '@modelcontextprotocol/sdk/client/streamableHttp.js' : '@modelcontextprotocol/client'
);
const { UnauthorizedError } = requirePeer(
  major === '1' ? '@modelcontextprotocol/sdk/client/auth.js' : '@modelcontextprotocol/client'
);

/** Signs in as the user. Returns the parameters with which the authorization server sends the browser back. */
async function consent(target) {
  const page = await (await fetch(target)).text();
  const [, ticket] = page.match(/name=ticket value="([^"]+)"/);
  const form = new URLSearchParams({ ticket, password, answer: 'allow' });
  const back = await fetch(`${target.origin}${target.pathname}`, { method: 'POST', body: form, redirect: 'manual' });
  return new URL(back.headers.get('location')).searchParams;
}

const kept = {};
let callback;
let hidesRefreshToken = false;
const provider = {
  redirectUrl: 'http://127.0.0.1:3333/callback',
  clientMetadata: {
    client_name: 'typescript',
    redirect_uris: ['http://127.0.0.1:3333/callback'],
    grant_types: ['authorization_code', 'refresh_token']
  },
  state: () => 'a state',
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => (hidesRefreshToken ? { ...kept.tokens, refresh_token: undefined } : kept.tokens),
  saveTokens: (tokens) => void (kept.tokens = tokens),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  redirectToAuthorization: async (target) => void (callback = await consent(target))
};

let client, transport;

/** Does something; after a sign-in, once more. */
async function signedIn(attempt) {
  for (let signIns = 0; ; signIns++) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof UnauthorizedError) || signIns === 2) throw error;
      if (callback.get('state') !== 'a state') throw new Error('another state');
      await transport.finishAuth(...(major === '1' ? [callback.get('code')] : [callback]));
    }
  }
}

async function connect() {
  client = new Client({ name: 'typescript', version: major }, { versionNegotiation: { mode: era } });
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  let revision;
  const { setProtocolVersion } = transport;
  transport.setProtocolVersion = (version) => {
    revision = version;
    setProtocolVersion.call(transport, version);
  };
  await client.connect(transport);
  return revision;
}

const call = async (name) => (await signedIn(() => client.callTool({ name, arguments: {} }))).content[0].text;
const revision = await signedIn(connect);
const texts = [await call('read_notes')];
// SDK 1 responds to a 403 for more scopes with a refresh, which cannot add any. It has no refresh token here.
hidesRefreshToken = major === '1';
texts.push(await call('add_note'));
hidesRefreshToken = false;
await call('end_token');
texts.push(await call('read_notes'));
await client.close();
console.log(JSON.stringify({ revision, texts }));
