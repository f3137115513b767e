"""Servers for the tests of this folder."""

from tests.server.conftest import serve

__all__ = ["serve"]
