"""Programs that some tests drive, and that are no part of the development environment."""

from __future__ import annotations

import os
import shutil

import pytest


def need(program: str, *, package: str) -> str:
    """Where it is. Without it the test fails in CI, where `.ci/packages` installs it, and is
    skipped elsewhere."""
    found = shutil.which(program)
    if found is not None:
        return found
    why = f"{program} is not on this machine; on Debian: apt-get install {package}"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)
