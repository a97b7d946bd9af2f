// protected_client.mjs MAJOR ERA URL PASSWORD [dpop]: a client of a protected server, made with the official TypeScript
// SDK, 1.x or 2.x. ERA is `legacy`, or `auto` for the newest revision. The script plays the browser: it posts the forms.
// With `dpop`, the client proves the possession of a key. Prints one JSON object.

import { requirePeer } from './scenario.mjs';

const [major, era, url, password, dpop] = process.argv.slice(2);
const CALLBACK = 'http://127.0.0.1:3333/callback'; // nothing listens there
const { Client } = requirePeer(major === '1' ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client');
const { StreamableHTTPClientTransport } = requirePeer(
  major === '1' ? '@modelcontextprotocol/sdk/client/streamableHttp.js' : '@modelcontextprotocol/client'
);
const { UnauthorizedError } = requirePeer(
  major === '1' ? '@modelcontextprotocol/sdk/client/auth.js' : '@modelcontextprotocol/client'
);

/** Signs in as the user, with a form on each page. Returns the parameters with which the browser comes back. */
async function consent(target) {
  const cookies = new Map();
  let body;
  for (let pages = 0; pages < 10; pages++) {
    const headers = { cookie: [...cookies].map((pair) => pair.join('=')).join('; ') };
    const response = await fetch(target, { method: body ? 'POST' : 'GET', body, headers, redirect: 'manual' });
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = line.match(/^([^=]+)=([^;]*)/);
      cookies.set(name, value);
    }
    body = undefined;
    const location = response.headers.get('location');
    if (location !== null) {
      target = new URL(location, target);
      if (target.href.startsWith(CALLBACK)) return target.searchParams;
      continue;
    }
    const page = await response.text();
    const hidden = [...page.matchAll(/<input type="?hidden"? name="?(\w+)"? value="([^"]*)"/g)];
    const fields = Object.fromEntries(hidden.map(([, name, value]) => [name, value]));
    body = new URLSearchParams({ login: 'alice', password, answer: 'allow', ...fields });
    target = new URL(page.match(/<form\b[^>]*action="?([^" >]+)/)[1], target);
  }
  throw new Error(`too many pages: ${target}`);
}

const kept = {};
let callback;
let hidesRefreshToken = false;
const provider = {
  redirectUrl: CALLBACK,
  clientMetadata: {
    client_name: 'typescript',
    redirect_uris: [CALLBACK],
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

if (dpop) {
  const session = await requirePeer('@modelcontextprotocol/client').DpopSession.create();
  provider.dpop = () => session;
}

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
if (!dpop) texts.push(await call('add_note'));
hidesRefreshToken = false;
await call('end_token');
texts.push(await call('read_notes'));
await client.close();
console.log(JSON.stringify({ revision, texts }));
