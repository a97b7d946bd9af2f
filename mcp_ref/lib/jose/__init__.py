"""JSON Web Tokens (JOSE), which the standard library lacks: verify signed tokens, and sign them with ES256.

A token is a JSON object that its issuer has signed, so that anybody with the issuer's public key can check who made it.
The folder knows nothing of OAuth or MCP, does no I/O, and imports nothing else of the package. Because tokens and keys
may come from an attacker, their sizes are limited, and thereby the time to check them. A verification reads only public
data, so its timing reveals no secret. Reading order:

    rsa.py, curves.py, ed25519.py   the arithmetic of the algorithms
    keys.py                         keys: JWK, JWK Set, thumbprint, PEM
    tokens.py                       tokens: JWS, JWT, claims
"""
