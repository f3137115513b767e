"""Windlass."""
