"""Numbers in, numbers out: one op, one signature, several places."""
