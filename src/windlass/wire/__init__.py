"""What crosses the network between a server and its clients; both sides import it.

`windlass.proto` is the protocol, `windlass_pb2.py` is made from it, `frames.py` cuts a stream of
bytes into messages, `records.py` says which verbs of the store port can be called, and how their
arguments and answers are written.
"""
