"""Passes over recorded nodes: each takes nodes and returns nodes that mean the same and cost less."""
