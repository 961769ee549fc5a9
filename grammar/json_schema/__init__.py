"""JSON Schema in, grammar out."""
