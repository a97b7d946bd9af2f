"""Other ways to get tokens, and to protect them. All are off until a program asks for them.

A program without a user cannot sign in with a browser, so it proves its identity in another way, and gets a token of
its own. And because anybody can use a stolen token, a token can be bound to a key that never leaves the client.

    headless.py   a program that has a secret or a private key      oauth-client-credentials (SEP-1046)
                  a program that its platform vouches for           auth/wif (SEP-1933, draft)
                  a program whose company has an identity provider  enterprise-managed-authorization (SEP-990)
    dpop.py       tokens that are useless without a private key     auth/dpop (SEP-1932, draft)

The column on the right has the names in the capability `extensions`, without `io.modelcontextprotocol/`.
"""
