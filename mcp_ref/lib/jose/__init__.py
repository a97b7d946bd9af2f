"""Signed JSON (JOSE), which the standard library lacks: verify JSON Web Tokens, and sign with ES256.

The folder knows nothing of OAuth and MCP, does no I/O, and needs no other part of the package. Reading order:

    rsa.py      RS256 to RS512 and PS256 to PS512
    curves.py   ES256 and ES384; signing with ES256
    ed25519.py  EdDSA with Ed25519

Tokens, key sets and keys may come from an attacker: all sizes, and so the time of a verification, have limits.
"""
