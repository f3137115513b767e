"""Acceptance tests of `windlass serve` by a client that has nothing of Windlass in it.

The protocol files, the messages and the clients in this package are written from the page that
describes the protocol. The servers are real processes over real databases; what a test wants to
know about a job it asks over REST, as other programs do.
"""
