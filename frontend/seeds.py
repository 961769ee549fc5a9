"""Seeds that follow from other seeds. Mixed by a hash, so that neighbours share nothing."""

from __future__ import annotations

import hashlib

from radixrt.api import MAX_SEED

__all__ = ["derived_seed"]


def derived_seed(seed: int, kind: str, index: int) -> int:
    """The seed of child ``index`` of this kind: 63 bits, the same in every process."""
    digest = hashlib.blake2b(f"{seed}/{kind}/{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") & MAX_SEED
