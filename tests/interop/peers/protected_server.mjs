// protected_server.mjs ISSUER|routes: a protected server for our client, made with the official TypeScript SDK, on a free
// port. With ISSUER, SDK 2.x accepts tokens of that authorization server. With `routes`, the mcpAuthRouter of SDK 1.x is
// the authorization server, and has sessions. Prints its URL, then one line for each request.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { listen } from './web.mjs';
import { requirePeer } from './scenario.mjs';

const [issuer] = process.argv.slice(2);
const text = (value) => ({ content: [{ type: 'text', text: String(value) }] });
const scopes = ['notes:read'];
const ended = new Set();

function addTools(server, infoOf) {
  server.registerTool('read_notes', {}, (extra) => text(`notes of ${infoOf(extra).extra.subject}`));
  server.registerTool('end_token', {}, (extra) => {
    ended.add(infoOf(extra).token);
    return text('ended');
  });
  return server;
}

function log({ method, path, status, params = {}, token, challenge }) {
  const challenges = challenge ? [challenge] : [];
  const bearer = (token ?? '').replace('Bearer ', '');
  console.error(`wire ${JSON.stringify({ method, path, status, params, token: bearer, challenge: challenges })}`);
}

function serveTokensOfIssuer() {
  const sdk = requirePeer('@modelcontextprotocol/server');
  const { createRemoteJWKSet, jwtVerify } = requirePeer('jose');
  const keys = createRemoteJWKSet(new URL(`${issuer}/jwks`));

  const make = () => {
    const server = new sdk.McpServer({ name: 'protected', version: '2' });
    const scopeChallenge = sdk.requireScopes('notes:read', 'notes:write');
    server.registerTool('add_note', { scopeChallenge }, () => text('added'));
    return addTools(server, ({ http }) => http.authInfo);
  };
  const handler = sdk.createMcpHandler(make);

  listen(async (request) => {
    const url = new URL(request.url);
    const resource = new URL('/mcp', url);
    const oauthMetadata = { issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token`,
      response_types_supported: ['code'] };
    const verifier = {
      async verifyAccessToken(token) {
        try {
          if (ended.has(token)) throw new Error('its time is over');
          const { payload } = await jwtVerify(token, keys, { issuer, audience: resource.href });
          const { client_id: clientId, scope, exp: expiresAt, aud, sub: subject } = payload;
          return { token, clientId, scopes: scope.split(' '), expiresAt, resource: new URL(aud), extra: { subject } };
        } catch (error) {
          throw new sdk.OAuthError(sdk.OAuthErrorCode.InvalidToken, String(error.message));
        }
      }
    };
    const resourceMetadataUrl = sdk.getOAuthProtectedResourceMetadataUrl(resource);
    const gate = { verifier, requiredScopes: scopes, resourceMetadataUrl, expectedResource: resource };
    const respond = async () => {
      const document = { oauthMetadata, resourceServerUrl: resource, scopesSupported: scopes };
      const found = sdk.oauthMetadataResponse(request, { ...document, dangerouslyAllowInsecureIssuerUrl: true });
      if (found !== undefined) return found;
      const authInfo = await sdk.requireBearerAuth(gate)(request);
      return authInfo instanceof Response ? authInfo : handler.fetch(request, { authInfo });
    };
    const response = await respond();
    log({
      method: request.method,
      path: url.pathname,
      status: response.status,
      token: request.headers.get('authorization'),
      challenge: response.headers.get('www-authenticate')
    });
    return response;
  });
}

/** The part of an authorization server that the SDK leaves to its users. It agrees to everything. */
function makeProvider() {
  const [clients, codes, access, refresh] = [new Map(), new Map(), new Map(), new Map()];
  const issue = (grant) => {
    const tokens = { access_token: randomUUID(), refresh_token: randomUUID() };
    access.set(tokens.access_token, { ...grant, expiresAt: Date.now() / 1000 + 300 });
    refresh.set(tokens.refresh_token, grant);
    return { ...tokens, token_type: 'bearer', expires_in: 300, scope: grant.scopes.join(' ') };
  };
  return {
    clientsStore: {
      getClient: (id) => clients.get(id),
      registerClient: (client) => {
        clients.set(client.client_id, client);
        return client;
      }
    },
    async authorize(client, { state, scopes: asked, codeChallenge, redirectUri, resource }, res) {
      const code = randomUUID();
      codes.set(code, { clientId: client.client_id, scopes: asked ?? scopes, resource, codeChallenge });
      res.redirect(`${redirectUri}?${new URLSearchParams({ code, state })}`);
    },
    challengeForAuthorizationCode: async (client, code) => codes.get(code).codeChallenge,
    async exchangeAuthorizationCode(client, code) {
      const grant = codes.get(code);
      codes.delete(code);
      return issue(grant);
    },
    async exchangeRefreshToken(client, token) {
      const grant = refresh.get(token);
      refresh.delete(token);
      return issue(grant);
    },
    async verifyAccessToken(token) {
      const { InvalidTokenError } = requirePeer('@modelcontextprotocol/sdk/server/auth/errors.js');
      const grant = ended.has(token) ? undefined : access.get(token);
      if (grant === undefined) throw new InvalidTokenError('unknown');
      return { token, ...grant, extra: { subject: 'alice' } };
    },
    revokeToken: async (client, { token }) => void (refresh.delete(token) || access.delete(token))
  };
}

function serveRoutes() {
  const express = requirePeer('express');
  const { McpServer } = requirePeer('@modelcontextprotocol/sdk/server/mcp.js');
  const { StreamableHTTPServerTransport } = requirePeer('@modelcontextprotocol/sdk/server/streamableHttp.js');
  const { mcpAuthRouter, getOAuthProtectedResourceMetadataUrl } = requirePeer('@modelcontextprotocol/sdk/server/auth/router.js');
  const { requireBearerAuth } = requirePeer('@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js');

  const app = express();
  const server = createServer(app);
  const sessions = new Map();
  server.listen(0, '127.0.0.1', () => {
    const base = new URL(`http://127.0.0.1:${server.address().port}`);
    const resource = new URL('/mcp', base);
    const provider = makeProvider();
    app.use((req, res, next) => {
      res.on('finish', () => {
        const params = req.originalUrl === '/mcp' || req.body === undefined ? {} : req.body;
        const challenge = res.getHeader('www-authenticate');
        log({ method: req.method, path: req.originalUrl.split('?')[0], status: res.statusCode, params, token: req.headers.authorization, challenge });
      });
      next();
    });
    app.use(mcpAuthRouter({ provider, issuerUrl: base, resourceServerUrl: resource, scopesSupported: scopes }));
    const resourceMetadataUrl = getOAuthProtectedResourceMetadataUrl(resource);
    app.use('/mcp', requireBearerAuth({ verifier: provider, requiredScopes: scopes, resourceMetadataUrl, expectedResource: resource }));
    app.all('/mcp', async (req, res) => {
      const known = req.headers['mcp-session-id'];
      let transport = sessions.get(known);
      if (known !== undefined && transport === undefined) return res.status(404).end();
      if (transport === undefined) {
        transport = new StreamableHTTPServerTransport({
          sessionIdGenerator: randomUUID,
          onsessioninitialized: (id) => sessions.set(id, transport)
        });
        await addTools(new McpServer({ name: 'protected', version: '1' }), ({ authInfo }) => authInfo).connect(transport);
      }
      await transport.handleRequest(req, res);
    });
    console.error(`running on ${base.origin}`);
  });
}

if (issuer === 'routes') serveRoutes();
else serveTokensOfIssuer();
