"""Garbage for the server's two ports, beside a worker that must not notice."""
