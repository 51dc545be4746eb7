"""Every log line that names a turn also names its trace: looked for in the code, since many lines are rare (G24, M4)."""

import ast
import re
from typing import TypeGuard

import pytest

from tests.conftest import ROOT

PRODUCT = ("turnstile", "worker", "producer", "relay", "ops")
LOGGERS = {"log", "self.log", "self._log", "logger"}
LOGS = {"debug", "info", "warning", "error", "exception", "critical", "bind"}
PAIRS = {"turn_id": "trace_id", "turn_ids": "trace_ids"}


def find_untraced(tree: ast.AST) -> list[int]:
    """Calls of a logger, and dicts that are unpacked in one, with a turn's id and without its trace's."""
    calls = [node for node in ast.walk(tree) if _is_line(node)]
    unpacked = {ast.unparse(each.value) for call in calls for each in call.keywords if each.arg is None}
    found = [call.lineno for call in calls if _lacks({each.arg for each in call.keywords})]
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if unpacked & {ast.unparse(target) for target in targets}:
                found += [
                    each.lineno for each in ast.walk(node.value) if isinstance(each, ast.Dict) and _lacks(_keys(each))
                ]
    return found


def _is_line(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOGS


def _keys(of: ast.Dict) -> set[str | None]:
    return {key.value for key in of.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}


def _lacks(names: set[str | None]) -> bool:
    return any(turn in names and trace not in names for turn, trace in PAIRS.items())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("log.info('x', turn_id=1)", [1]),
        ("log.error('x', turn_ids=[1])", [1]),
        ("logs.bind(turn_id=1)", [1]),
        ("about = {'turn_id': id}\nlog.info('x', **about)", [1]),
        ("self.ids: Any = {} if no else {'turn_id': id}\nlog.info('x', **self.ids)", [1]),
        ("log.info('x', turn_id=1, trace_id=2)", []),
        ("about = {'turn_id': id, 'trace_id': trace}\nlog.info('x', **about)", []),
        ("asked = {'turn_id': turn.id}", []),
    ],
)
def test_what_is_looked_for_would_be_found(text: str, found: list[int]) -> None:
    assert find_untraced(ast.parse(text)) == found


def test_each_line_with_a_turns_id_has_its_trace() -> None:
    untraced = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in PRODUCT
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in find_untraced(ast.parse(path.read_text("utf-8")))
    ]
    assert untraced == []


NAME = re.compile(r"[a-z_]+(\.[a-z_]+)+")
"""The name of an event: `worker.blocked`."""


def find_sentences(tree: ast.AST) -> list[int]:
    """Lines whose event is text of the code, and not a name."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if _is_line(node)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
        if isinstance(node.func, ast.Attribute) and node.func.attr != "bind" and ast.unparse(node.func.value) in LOGGERS
        if not NAME.fullmatch(node.args[0].value)
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [("log.info('the worker is blocked')", [1]), ("log.info('worker.blocked')", []), ("log.info('x')", [1])],
)
def test_a_sentence_would_be_found(text: str, found: list[int]) -> None:
    assert find_sentences(ast.parse(text)) == found


def test_each_event_is_a_name() -> None:
    sentences = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in PRODUCT
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in find_sentences(ast.parse(path.read_text("utf-8")))
    ]
    assert sentences == []
