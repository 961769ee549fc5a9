"""Fakes that ship: scripted model, byte tokenizer, fake clock, in-memory channel."""
