"""How long a test waits for something that must come: only a hang makes this time pass."""

PATIENCE = 120.0
"""Seconds. Long enough for a machine that is busy with other things."""
