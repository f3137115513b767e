"""The versions of servers that tests run on."""

from __future__ import annotations

import pytest

VERSIONS = [pytest.param(16, id="pg16", marks=pytest.mark.rig), pytest.param(18, id="pg18")]
"""For fixtures: what runs on both runs on the older one in `make test-all`."""
