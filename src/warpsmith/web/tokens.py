"""Tokens: random, compared in constant time, read from a header."""

from __future__ import annotations

import hashlib
import hmac
import secrets

TOKEN_BYTES = 32


def make_token() -> str:
    """Draw a token of 256 bits that is safe in a URL."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def match_token(presented: str | None, expected: str) -> bool:
    """Compare two tokens in a time that tells neither where they differ nor how long they are. An empty expectation matches nothing."""
    digests = [
        hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in (presented or "", expected)
    ]
    return hmac.compare_digest(*digests) and bool(expected)


def read_bearer(header: str | None) -> str | None:
    """Return the token of an `Authorization` header; None where it is missing or of another scheme."""
    scheme, _, token = (header or "").strip().partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
