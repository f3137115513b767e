"""The app that `windlass run --once` is started with, to time a start and stop of the program."""

from __future__ import annotations

import os

import msgspec

from windlass.cli.bench.child import ENVIRONMENT, Orders, make_app

app = make_app(msgspec.json.decode(os.environ[ENVIRONMENT], type=Orders).address)
