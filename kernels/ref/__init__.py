"""Plain torch: what each op means."""
