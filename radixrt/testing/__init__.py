"""Fakes that ship: scripted model, byte tokenizer, fake clock, in-memory channel."""

from radixrt.testing.byte_tokenizer import ByteTokenizer

__all__ = ["ByteTokenizer"]
