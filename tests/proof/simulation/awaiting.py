"""The heartbeat's blocking code as coroutines, made from its own source: what blocks a thread there, is awaited here.

A real thread per simulated process would do too, but hands control over at every call: thousands of lives would spend
their time in the operating system's scheduler. Nothing is written twice: each function is read, its blocking calls are
awaited, and the rest stays as it is, with the globals of the module it comes from.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any

import turnstile.backends.sqs.threaded_transport
import turnstile.message_queue
import turnstile.statements.renew_lease
import turnstile.statements.worker_registry
import turnstile.worker.heartbeat
import turnstile.worker.session_lock

SUFFIX = "_awaited"

AWAITED: tuple[tuple[Any, str], ...] = (
    *(
        (turnstile.worker.heartbeat.Heartbeat, name)
        for name in ("_run", "_try_beat", "_look", "_beat", "_extend_locks", "_renew_rows", "_extend_messages")
    ),
    (turnstile.worker.heartbeat.Heartbeat, "_withdraw"),
    (turnstile.worker.session_lock.LockExtender, "extend"),
    (turnstile.worker.session_lock.LockExtender, "_ask"),
    (turnstile.message_queue.MessageQueues, "extend"),
    (turnstile.backends.sqs.threaded_transport.ThreadedTransport, "call_blocking"),
    (turnstile.backends.sqs.threaded_transport, "ask"),
    (turnstile.statements.renew_lease, "renew"),
    (turnstile.statements.worker_registry, "announce"),
    (turnstile.statements.worker_registry, "withdraw"),
)
"""Functions that block, by where they are; calls of them are renamed and awaited."""

AT_THE_BOTTOM = frozenset({"wait", "execute", "method"})
"""Calls that the simulation answers itself, with something to await."""

_NAMES = frozenset(name for _, name in AWAITED)


class _Awaiting(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        if name in _NAMES:
            if isinstance(called, ast.Attribute):
                called.attr += SUFFIX
            elif isinstance(called, ast.Name):
                called.id += SUFFIX
        elif name not in AT_THE_BOTTOM:
            return node
        return ast.Await(node)


@cache
def _make(code: CodeType, function: Callable[..., Any]) -> Any:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    [found] = tree.body
    if not isinstance(found, ast.FunctionDef):
        raise TypeError(f"{function.__qualname__} blocks no more: nothing to be awaited")
    body = [_Awaiting().visit(statement) for statement in found.body]
    made = ast.AsyncFunctionDef(
        name=found.name + SUFFIX, args=found.args, body=body, decorator_list=[], returns=None, type_comment=None
    )
    ast.copy_location(made, found)
    module = ast.fix_missing_locations(ast.Module([made], []))
    where = code.co_filename
    namespace: dict[str, Any] = {}
    exec(compile(module, f"{where} (awaited)", "exec"), function.__globals__, namespace)  # noqa: S102 - our own source
    return namespace[found.name + SUFFIX]


def install() -> None:
    """Puts each coroutine beside its original; anew where the original has been replaced since (a planted bug)."""
    for home, name in AWAITED:
        function = vars(home)[name]
        made = _make(function.__code__, function)
        setattr(home, name + SUFFIX, made)
        if inspect.ismodule(home):
            # The heartbeat has imported it by name.
            setattr(turnstile.worker.heartbeat, name + SUFFIX, made)
