"""Programs in, call graph out: verbs, recording, execution."""
