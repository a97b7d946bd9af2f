// oidc_provider.mjs OPTIONS: the authorization server of npm oidc-provider, with its development pages, on any free port.
//
// OPTIONS is JSON: {clients, format, nonces, method}: clients that are registered by hand, the format of access tokens
// (jwt or opaque), true to demand DPoP nonces at the token endpoint, and the only way in which clients authenticate
// themselves. Prints the issuer, then one line for each request.

import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { requirePeer } from './scenario.mjs';

const { Provider } = requirePeer('oidc-provider');
const { clients = [], format = 'jwt', nonces = false, method } = JSON.parse(process.argv[2]);

/** The document at the URL that a client uses as its id. Nothing is on the network, so it is here. */
const DOCUMENT = 'https://client.example/metadata.json';
const fetchDocument = async () =>
  Response.json({
    client_id: DOCUMENT,
    client_name: 'published client',
    redirect_uris: ['http://127.0.0.1/callback'],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    application_type: 'native',
    token_endpoint_auth_method: 'none'
  });

const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients,
    scopes: ['openid', 'offline_access', 'notes:read', 'notes:write'],
    fetch: fetchDocument,
    pkce: { required: () => true },
    rotateRefreshToken: true,
    ttl: { AccessToken: 300, ClientCredentials: 300, Grant: 3600, Interaction: 600, RefreshToken: 3600, Session: 3600 },
    ...(method ? { clientAuthMethods: [method] } : {}),
    cookies: { keys: ['a key of the tests'] },
    features: {
      clientCredentials: { enabled: true },
      clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
      devInteractions: { enabled: true },
      dPoP: {
        enabled: true,
        nonceSecret: createHash('sha256').update('a secret of the tests').digest(),
        requireNonce: () => nonces
      },
      introspection: { enabled: true },
      registration: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => true,
        getResourceServerInfo: (ctx, resource) => ({
          audience: resource,
          scope: 'notes:read notes:write',
          accessTokenFormat: format,
          accessTokenTTL: 300,
          jwt: { sign: { alg: 'RS256' } }
        })
      }
    }
  });
  provider.use(async (ctx, next) => {
    await next();
    const { method, path, status } = ctx;
    const params = { ...ctx.oidc?.params, ...(path === '/reg' ? ctx.oidc?.body : {}) };
    console.error(`wire ${JSON.stringify({ method, path, status, params, body: ctx.body })}`);
  });
  provider.on('server_error', (ctx, error) => console.error(error));
  server.on('request', provider.callback());
  console.error(`running on ${issuer}`);
});
