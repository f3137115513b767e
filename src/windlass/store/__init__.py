"""The store port: what an engine, a client and an operator may ask of a database."""
