"""What CloudWatch's metric math makes of the alarms' formulas, and when an alarm fires: the emulator knows neither.

Nothing else here shows that a formula fires for the fault that its alarm names. The rules are those of two pages of the
CloudWatch User Guide: "Using math expressions with CloudWatch metrics" and "Using Amazon CloudWatch alarms" (missing data).
Only what infra/ uses is here; a formula of another form is refused.
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Series = tuple[float | None, ...]
"""A value a period, the oldest first; None where there is no data. The first period begins at a full hour."""
Value = Series | float
Operation = Callable[[float, float], float]

_OPERATIONS: dict[type[ast.AST], Operation] = {
    ast.Add: operator.add, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Eq: operator.eq, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_BREACHES: dict[str, Operation] = {"GreaterThanThreshold": operator.gt, "LessThanThreshold": operator.lt}


def evaluate(expression: str, metrics: Mapping[str, Series]) -> Series:
    """What the formula makes of the metrics by their ids. Raises ValueError for a form that is not known here."""
    # The formulas are Python's expressions but for AND, which binds as tightly as its `and`.
    value = _value(ast.parse(expression.replace(" AND ", " and "), mode="eval").body, metrics)
    assert isinstance(value, tuple), f"CloudWatch refuses an alarm on a mere number: {expression}"
    return value


def _value(node: ast.expr, metrics: Mapping[str, Series]) -> Value:
    match node:
        case ast.Constant(value=int() as number):
            return float(number)
        case ast.Name(id=name) if name in metrics:
            return metrics[name]
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            return _pairwise(_OPERATIONS[type(op)], _value(left, metrics), _value(right, metrics))
        case ast.BoolOp(op=ast.And(), values=[first, *others]):
            both = _value(first, metrics)
            for one in others:
                both = _pairwise(lambda a, b: a != 0 and b != 0, both, _value(one, metrics))
            return both
        case ast.Call(func=ast.Name(id=function), args=arguments) if function in _FUNCTIONS:
            series, *others = (_value(one, metrics) for one in arguments)
            assert isinstance(series, tuple), f"{function} needs a series"
            return _FUNCTIONS[function](series, *others)
    raise ValueError(f"not a form that infra/ uses: {ast.unparse(node)}")


def _pairwise(operation: Operation, left: Value, right: Value) -> Value:
    # Where only one of two series has a value, the other's is 0. A number makes no value where the series has none.
    missing = 0.0 if isinstance(left, tuple) and isinstance(right, tuple) else None
    length = len(left) if isinstance(left, tuple) else len(right) if isinstance(right, tuple) else 0
    pairs = zip(_spread(left, length), _spread(right, length), strict=True)
    return tuple(
        None if a is None and b is None else _apply(operation, missing if a is None else a, missing if b is None else b)
        for a, b in pairs
    )


def _apply(operation: Operation, left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return None
    try:
        return float(operation(left, right))
    except ZeroDivisionError:
        return None  # the period has no value, then


def _spread(value: Value, length: int) -> Series:
    return value if isinstance(value, tuple) else (value,) * length


def _fill(series: Series, filler: Value) -> Series:
    # The guide says nothing about a series without any value. Ours have some: SQS reports zeros of a queue that is in use.
    return tuple(
        filled if value is None else value for value, filled in zip(series, _spread(filler, len(series)), strict=True)
    )


def _minute(series: Series) -> Series:
    # The timestamps', also where the series itself has no value.
    return tuple(float(place % 60) for place in range(len(series)))


def _if(condition: Series, yes: Value, no: Value) -> Series:
    """A value for each one of the condition. A true one without a value of `yes` gives 0, as the guide's page has it."""
    chosen = zip(condition, _spread(yes, len(condition)), _spread(no, len(condition)), strict=True)
    return tuple(None if asked is None else (true or 0.0) if asked else false for asked, true, false in chosen)


_FUNCTIONS: dict[str, Callable[..., Series]] = {"FILL": _fill, "IF": _if, "MINUTE": _minute}


@dataclass(frozen=True, slots=True)
class Rule:
    """What an alarm asks of the numbers: all of `periods` must breach."""

    comparison: str
    threshold: float
    periods: int
    missing: str
    """`breaching` or `notBreaching`."""

    def fires(self, values: Sequence[float | None]) -> bool:
        """Whether the alarm is in ALARM after these periods, the oldest first.

        CloudWatch looks at more periods than it judges (how many more is not documented), and counts a missing one only where
        it has found too few others: silence is heard later than a number would be.
        """
        breaches = _BREACHES[self.comparison]
        found = [breaches(value, self.threshold) for value in values if value is not None][-self.periods :]
        return all(found) and (len(found) == self.periods or self.missing == "breaching")
