// npm oauth2-mock-server, on any free port. It agrees to everything. Its tokens have the fault that the id of the client
// names: `audience`, `expired`, `issuer`, `key` (an unknown one), `signature`, or `none`. Prints the issuer.

import { createSign, generateKeyPairSync } from 'node:crypto';
import { requirePeer } from './scenario.mjs';

const { Events, OAuth2Server } = requirePeer('oauth2-mock-server');

const server = new OAuth2Server();
await server.issuer.keys.generate('RS256');
await server.start(0, '127.0.0.1');
server.issuer.url = `http://127.0.0.1:${server.address().port}`;

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 }); // nobody publishes its public half

server.service.on(Events.BeforeTokenSigning, ({ header, payload }, { body }) => {
  const fault = body.client_id;
  payload.aud = fault === 'audience' ? 'https://other.example/mcp' : body.resource;
  payload.sub = 'alice';
  payload.scope = 'notes:read';
  if (fault === 'expired') payload.exp = Math.floor(Date.now() / 1000) - 60;
  if (fault === 'issuer') payload.iss = 'https://other.example';
  if (fault === 'key') header.kid = 'unknown';
});
server.service.on(Events.BeforeResponse, (response, { body }) => {
  if (body.client_id !== 'signature' || !response.body.access_token) return;
  const [head, claims] = response.body.access_token.split('.');
  const signature = createSign('RSA-SHA256').update(`${head}.${claims}`).sign(privateKey, 'base64url');
  response.body.access_token = `${head}.${claims}.${signature}`;
});
console.error(`running on ${server.issuer.url}`);
