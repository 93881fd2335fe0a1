"""Shared by the samplers' tests."""

from tests.unit.samplers.nvidia import machine

__all__ = ["machine"]
