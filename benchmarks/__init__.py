"""Windlass side by side with its peers, on one PostgreSQL, in one run. See README.md."""
