"""Runs one Python block of a page: `python block_child.py PAGE:LINE`, [setup, block] on stdin."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import sys
from types import CodeType
from typing import Any


def compiled(text: str, name: str) -> CodeType:
    code: CodeType = compile(text, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return code


async def run_with_await(codes: list[CodeType], names: dict[str, Any]) -> None:
    for code in codes:
        answer = eval(code, names)
        if inspect.isawaitable(answer):
            await answer


def main() -> None:
    sys.path.insert(0, "")
    name = sys.argv[1]
    setup, block = json.load(sys.stdin)
    codes = [compiled(setup, f"setup of {name}"), compiled(block, name)]
    names: dict[str, Any] = {"__name__": "__main__"}
    if any(code.co_flags & inspect.CO_COROUTINE for code in codes):
        asyncio.run(run_with_await(codes, names))
    else:
        for code in codes:
            exec(code, names)


main()
