"""Plain functions run in threads, which nothing can stop from outside."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from windlass.engine import forking
from windlass.engine.delivery import Delivery


class Threads:
    """One thread per slot, made when first needed."""

    def __init__(self, slots: int) -> None:
        self._executor = ThreadPoolExecutor(slots, thread_name_prefix="windlass-thread")

    async def run(self, delivery: Delivery, call: Callable[..., Any], *args: Any) -> Any:
        """The answer of `call`. When the delivery is told to stop, the thread goes on without it,
        and is what `remains` of the delivery."""
        variables = contextvars.copy_context()
        work = asyncio.get_running_loop().run_in_executor(
            self._executor, variables.run, _call, delivery.title, call, *args
        )
        # A slot that was told to stop does not await this; asyncio would then log the exception.
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        delivery.remains = work
        return await asyncio.shield(work)

    def close(self) -> bool:
        """Let go of the threads; False if one is still busy."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        return not any(_is_busy(thread) for thread in self._executor._threads)


def _call(what: str, call: Callable[..., Any], *args: Any) -> Any:
    life = forking.lives
    raised: BaseException | None = None
    try:
        return call(*args)
    except (StopIteration, GeneratorExit) as error:  # neither can pass through an await
        raised = error
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error
    except BaseException as error:
        raised = error
        raise
    finally:
        if forking.lives != life:
            forking.leave(what, raised)


def _is_busy(thread: threading.Thread) -> bool:
    thread.join(timeout=0.05)
    return thread.is_alive()
