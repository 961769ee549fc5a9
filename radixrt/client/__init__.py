"""Engines: what a program talks to."""
