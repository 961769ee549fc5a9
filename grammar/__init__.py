"""Text of a constraint in, allowed-token bitmask out."""
