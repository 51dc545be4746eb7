"""Finds the awaits of the product and gives each a name; compiles the product's modules with every await wrapped.

Production code carries nothing: the names are made here, from the code itself, so no await can be forgotten and none can be
named after something that it is not.

    turnstile.worker.processor.Processor._claim: _retry_while_down        module, qualified function, what is awaited
    turnstile.worker.processor.Processor._claim: sleep#2         the second of that name in the function
    turnstile.backends.postgres.database.Database.fetch: connection enter    `async with` awaits twice: enter and exit

A function that does nothing but await one call has no point of its own: its caller's await is the same point.
"""

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]

MODULES = (
    "turnstile.worker.consumer",
    "turnstile.worker.processor",
    "turnstile.worker.claiming",
    "turnstile.worker.takeover",
    "turnstile.worker.handler_run",
    "turnstile.worker.received_message",
    "turnstile.worker.slots.tenant_admission",
    "turnstile.worker.session_lock",
    "turnstile.worker.database_retry",
    "turnstile.worker.attempt.attempt",
    "turnstile.worker.attempt.attempt_context",
    "turnstile.worker.attempt.own_loop",
    "turnstile.worker.attempt.once",
    "turnstile.worker.attempt.children",
    "turnstile.worker.attempt.child_intake",
    "turnstile.worker.parent_waking",
    "turnstile.worker.settling",
    "turnstile.memory.interface",
    "turnstile.memory.working_memory",
    "turnstile.memory.item_cache",
    "turnstile.memory.durable_items",
    "turnstile.backends.batcher",
    "turnstile.statements.defer",
    "turnstile.statements.waiting_tenants",
    "turnstile.statements.locked_rows",
    "turnstile.statements.claim",
    "turnstile.statements.settle",
    "turnstile.backends.postgres.database",
    "turnstile.backends.postgres.lending",
    "turnstile.backends.postgres.pipeline",
    "turnstile.queries.session_messages",
    "turnstile.memory.history",
    "turnstile.statements.once_values",
    "turnstile.statements.start_children",
    "turnstile.statements.join",
    "turnstile.message_queue",
    "turnstile.backends.sqs.sqs_client",
    "turnstile.relay.loop",
    "turnstile.relay.arrivals",
    "turnstile.relay.lost_workers",
    "turnstile.statements.lost_turns",
    "turnstile.relay.wake_ups_and_dead_letters",
    "turnstile.relay.fault_isolation",
    "turnstile.statements.submit",
    "turnstile.statements.submit_on_busy",
    "turnstile.statements.revive",
    "turnstile.statements.redrive_audit",
    "turnstile.ops.dead_letters.failed_turns",
    "turnstile.producer.submit_intake",
    "turnstile.submission.callers_transaction",
    "turnstile.submission.commit_then_wake",
    "turnstile.submission.wake_ups",
    "turnstile.ops.dead_letters.redrive",
    "turnstile.ops.dead_letters.dlq_messages",
    "turnstile.ops.dead_letters.sweep",
    "turnstile.producer.cancel_intake",
    "turnstile.erasure.request",
    "turnstile.erasure.eraser",
    "turnstile.erasure.keys",
    "turnstile.relay.erasures",
)

_AWAIT, _WITH, _FOR = "__crashpoints_await__", "__crashpoints_with__", "__crashpoints_for__"


class _Naming(ast.NodeTransformer):
    """Wraps every await of a module; `names` are the points, in the order of the text."""

    def __init__(self, module: str) -> None:
        self._where = [module]
        self._seen: Counter[str] = Counter()
        self.names: list[str] = []

    def _enter(self, node: ast.AST) -> ast.AST:
        self._where.append(node.name)  # type: ignore[attr-defined]
        try:
            return self.generic_visit(node)
        finally:
            self._where.pop()

    visit_ClassDef = visit_FunctionDef = _enter  # noqa: N815 - ast's names

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node if _only_delegates(node) else self._enter(node)

    def visit_Await(self, node: ast.Await) -> ast.AST:
        name = self._name(node.value)
        self.generic_visit(node)
        inner = _Inner()
        value = inner.visit(node.value)
        wrapped = _call(_AWAIT, name, value=value)
        node.value = (
            ast.Call(func=_lambda(inner.names, wrapped), args=inner.awaits, keywords=[]) if inner.awaits else wrapped
        )
        return node

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        for item in node.items:
            name = self._name(item.context_expr, " enter")
            leaving = self._name(item.context_expr, " exit")
            item.context_expr = _call(_WITH, name, leaving, value=item.context_expr)
        return self.generic_visit(node)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        node.iter = _call(_FOR, self._name(node.iter, " next"), value=node.iter)
        return self.generic_visit(node)

    def _name(self, awaited: ast.expr, moment: str = "") -> str:
        target = awaited.func if isinstance(awaited, ast.Call) else awaited
        callee = target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)
        name = f"{'.'.join(self._where)}: {callee}{moment}"
        self._seen[name] += 1
        if self._seen[name] > 1:
            name += f"#{self._seen[name]}"
        self.names.append(name)
        return name


class _Inner(ast.NodeTransformer):
    """Takes the awaits out of what is awaited, such as the first of `await (await x()).y()`: no lambda may have one."""

    def __init__(self) -> None:
        self.awaits: list[ast.expr] = []

    @property
    def names(self) -> list[str]:
        return [f"__inner_{number}__" for number in range(len(self.awaits))]

    def visit_Await(self, node: ast.Await) -> ast.AST:
        self.awaits.append(node)
        return ast.Name(self.names[-1], ast.Load())


def _call(hook: str, *names: str, value: ast.expr) -> ast.expr:
    # In a lambda: what is awaited must not have begun when a fault strikes before it.
    constants: list[ast.expr] = [ast.Constant(name) for name in names]
    return ast.Call(func=ast.Name(hook, ast.Load()), args=[*constants, _lambda([], value)], keywords=[])


def _lambda(names: Sequence[str], body: ast.expr) -> ast.Lambda:
    arguments = [ast.arg(name) for name in names]
    return ast.Lambda(
        args=ast.arguments(posonlyargs=[], args=arguments, kwonlyargs=[], kw_defaults=[], defaults=[]), body=body
    )


def _only_delegates(node: ast.AsyncFunctionDef) -> bool:
    match [statement for statement in node.body if not _is_docstring(statement)]:
        case [ast.Return(value=ast.Await(value=ast.Call())) | ast.Expr(value=ast.Await(value=ast.Call()))]:
            return not node.decorator_list
    return False


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def wrap(source: str, module: str) -> tuple[ast.Module, list[str]]:
    """The module's syntax tree with every await wrapped, and the names of the points."""
    naming = _Naming(module)
    tree = naming.visit(ast.parse(source))
    return ast.fix_missing_locations(tree), naming.names


def survey(modules: Sequence[str] = MODULES) -> list[str]:
    """The names of all awaits of the modules, in the order of the text."""
    return [name for module in modules for name in wrap(find_source(module).read_text("utf-8"), module)[1]]


def find_source(module: str) -> Path:
    return ROOT / f"{module.replace('.', '/')}.py"


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, hooks: Mapping[str, object]) -> None:
        super().__init__(fullname, path)
        self._hooks = hooks

    def get_code(self, fullname: str) -> types.CodeType:
        # Not from the cache of compiled files, and not into it: the product's own must stay what it is.
        tree, _ = wrap(Path(self.path).read_text("utf-8"), fullname)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module).update(self._hooks)
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, hooks: Mapping[str, object]) -> None:
        self._hooks = hooks

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in MODULES:
            return None
        source = str(find_source(fullname))
        return importlib.util.spec_from_file_location(fullname, source, loader=_Loader(fullname, source, self._hooks))


def install(*, awaiting: object, entering: object, iterating: object) -> None:
    """From now on the product's modules are imported with their awaits wrapped. None may have been imported before."""
    if early := [module for module in MODULES if module in sys.modules]:
        raise RuntimeError(f"imported too early to be wrapped: {', '.join(early)}")
    sys.meta_path.insert(0, _Finder({_AWAIT: awaiting, _WITH: entering, _FOR: iterating}))
