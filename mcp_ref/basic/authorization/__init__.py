"""Authorization: how a client gets a token for a protected MCP server over HTTP, and how the server checks it.

Three programs take part, and a user. The *MCP server* (OAuth: resource server) has the tools. The *authorization
server* signs users in and issues tokens. The *client* never sees a password, but gets a token that is valid only at
this MCP server, for a limited time, with the scopes that the user agreed to. Authorization is OPTIONAL. If a server
over HTTP uses it, it SHOULD follow these pages. A server over stdio SHOULD NOT, because it takes credentials from its
environment. [2026-07-28 basic/authorization/index#protocol-requirements]

`python3 examples/protected_client.py --alone` prints the whole flow, in more detail than below. The text under each
exchange says which side checks the messages, and which attack the check stops.

1   POST /notes                                              client to mcp.example, without a token
    401  WWW-Authenticate: Bearer scope="notes:read",
         resource_metadata="https://mcp.example/.well-known/oauth-protected-resource/notes"
    The client parses the header, because a mere search could take text in a description for a scope. (challenges.py)

2   GET /.well-known/oauth-protected-resource/notes          client to mcp.example
    200  {"resource": "https://mcp.example/notes", "authorization_servers": ["https://auth.example"]}
    The client compares `resource` with the URL of step 1, or a hostile server would get tokens for another server. A
    public server may name only https URLs at public addresses, or it could reach into our network. (addresses.py)

3   GET /.well-known/oauth-authorization-server              client to auth.example
    200  {"issuer": "https://auth.example", "authorization_endpoint": "https://auth.example/authorize",
          "token_endpoint": "https://auth.example/token", "registration_endpoint": "https://auth.example/register",
          "code_challenge_methods_supported": ["S256"], "authorization_response_iss_parameter_supported": true}
    The client compares `issuer`, or a hostile server could pose as an honest one, and collect the honest one's codes.
    Without S256 the client stops, because a stolen code would be as good as a token. (metadata.py)

4   POST /register                                           client to auth.example, unless it has a client id
    {"client_name": "mcp_ref", "redirect_uris": ["http://127.0.0.1:4711/callback"], "scope": "notes:read",
     "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
     "token_endpoint_auth_method": "none", "application_type": "native"}
    201  {"client_id": "c1", "redirect_uris": ["http://127.0.0.1:4711/callback"]}
    The client stores the id with its issuer, or it could send its credentials to another authorization server.

5   GET /authorize?response_type=code&client_id=c1&redirect_uri=http%3A%2F%2F127.0.0.1%3A4711%2Fcallback&state=s1
        &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256
        &resource=https%3A%2F%2Fmcp.example%2Fnotes&scope=notes%3Aread           browser to auth.example
    303  Location: http://127.0.0.1:4711/callback?code=k1&state=s1&iss=https%3A%2F%2Fauth.example
    Before the 303, the user signs in and agrees. The client rebuilds the URL before it opens it, or a hostile server
    could run shell commands. (addresses.py) The authorization server accepts only the redirect URI of step 4, or an
    attacker could get the code.

6   GET /callback?code=k1&state=s1&iss=https%3A%2F%2Fauth.example                browser to the client
    The client compares `state`, or a web page could sign the user in as the attacker. It also compares `iss`, or it
    could send an honest server's code to the hostile server of step 3. (authorization_code.py)

7   POST /token                                              client to auth.example
    grant_type=authorization_code&code=k1&redirect_uri=http%3A%2F%2F127.0.0.1%3A4711%2Fcallback
      &code_verifier=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk&resource=https%3A%2F%2Fmcp.example%2Fnotes&client_id=c1
    200  {"access_token": "t1", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "r1"}
    The authorization server hashes the verifier, and compares the hash with the challenge of step 5, or a stolen code
    would be enough. The token is valid only at `resource`, or the MCP server could use it elsewhere.

8   POST /notes                                              client to mcp.example, on every request
    Authorization: Bearer t1
    200  {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}
    The server checks signature, issuer, audience, time and scopes, or it would accept forged tokens, and tokens that
    users gave to others. It never passes the token on, because that would lend the user's rights to a third party.

A good token with too few scopes gets 403 and `error="insufficient_scope"`, after which the client repeats steps 2 to 7
with the old and the new scopes. Shortly before its token expires, the client exchanges the refresh token for another.

                        2025-03-26             2025-06-18             2025-11-25             2026-07-28
    MCP server          usually also the       only checks tokens     as before              as before
                        authorization server
    authorization       at the origin of the   named by protected     as before              as before
    server              MCP server             resource metadata
    which is found by   -                      the 401                the 401, or            as before
                                                                      well-known URLs
    server metadata     at the root; else      RFC 8414               RFC 8414 or OpenID     `issuer` MUST be
                        default endpoints                             Connect Discovery      identical
    registration        dynamic                dynamic                Client ID Metadata     dynamic is deprecated;
                                                                      Documents, dynamic     `application_type` MUST
    PKCE                REQUIRED               MUST                   S256, advertised       as before
    `resource`          -                      MUST; audience is      as before              as before
                                               checked
    first scopes        -                      -                      the challenge's, else  as before
                                                                      `scopes_supported`
    more scopes (403)   -                      -                      SHOULD, few times      old and new together
    `iss` in responses  -                      -                      -                      MUST match if present
    credentials         -                      -                      -                      MUST be kept by issuer

Modules, in reading order: `errors.py`; `challenges.py`, the header of the 401; `addresses.py`, which URLs to trust;
`metadata.py`, the JSON documents; `authorization_code.py`, steps 5 and 6. All of these are pure: no input, no output.
Then the client: `authorization_server_discovery.py`, steps 2 and 3; `store.py`, which keeps client ids and tokens;
`loopback.py`, which receives step 6; `client_registration.py`, step 4; `token_endpoint.py`, step 7; `client.py`, which
repeats a refused request with a better token; `sign_in.py`, which goes through all steps to get a token.
Then the MCP server: `server.py`, its part of steps 1, 2 and 8; `verifiers.py`, the checks of a token in step 8.

Spec:  basic/authorization (2025-03-26 to 2025-11-25); 2026-07-28 basic/authorization/index; 2026-07-28
       basic/authorization/security-considerations; OAuth 2.1 (draft 13), RFC 6750, RFC 7636, RFC 8707, RFC 9728
"""
