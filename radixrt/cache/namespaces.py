"""Names of cache namespaces: who may share whose prefixes.

A namespace is a tuple of alternating tags and values. Tags keep two kinds of value apart even when they are
spelled alike, so that a tenant called like an adapter can never be served that adapter's keys and values.
"""

from __future__ import annotations

__all__ = ["Namespace", "namespace"]

Namespace = tuple[str, ...]


def namespace(model: str, *, adapter: str | None = None, salt: str | None = None) -> Namespace:
    """Return the namespace of a model, with the adapter on it and the tenant's salt where there are any."""
    parts: tuple[str, ...] = ("model", model)
    if adapter is not None:
        parts += ("adapter", adapter)
    if salt is not None:
        parts += ("salt", salt)
    return parts
