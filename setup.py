"""Builds the native CPU kernels; everything else is in pyproject.toml."""

from setuptools import setup

setup()
