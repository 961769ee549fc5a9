"""Decoders: configuration, weights, the forward pass and the sampler."""
