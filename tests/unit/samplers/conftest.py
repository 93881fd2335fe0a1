"""Shared by the samplers' tests."""

from tests.unit.samplers.nvidia import driver, machine

__all__ = ["driver", "machine"]
