"""Tokenizer, incremental detokenizer, stop strings and chat templates."""
