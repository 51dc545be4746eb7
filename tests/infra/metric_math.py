"""CloudWatch's metric math and its alarms' verdicts, as far as the alarms use them; the emulator keeps no formula, and knows
nothing of missing data.

The rules are those of two pages of the CloudWatch User Guide, whose examples are tests/infra/test_metric_math.py:
"Using math expressions with CloudWatch metrics" (operators, FILL, IF, MINUTE) and "Using Amazon CloudWatch alarms" (missing
data).
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

Series = tuple[float | None, ...]
"""A value a period, the oldest first; None where there is no data."""
Value = Series | float


class FormulaError(ValueError):
    """Not a formula that can be judged here."""


_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_BREACHES: dict[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": operator.gt,
    "LessThanThreshold": operator.lt,
}


def evaluate(expression: str, metrics: Mapping[str, Series], *, begins: int = 0) -> Series:
    """What the formula makes of the metrics by their ids. FormulaError for what is not of the forms below, or is no series.

    `begins`: how many minutes after a full hour the first period lies; for MINUTE, which is known of periods of a minute.
    """
    # What is used of the language is Python's but for the names of the two operators, and binds as tightly.
    python = re.sub(r"\b(AND|OR)\b", lambda found: found[0].lower(), expression)
    value = _value(ast.parse(python, mode="eval").body, _Given(metrics, begins))
    if not isinstance(value, tuple):
        # An alarm on a mere number is refused.
        raise FormulaError(f"no time series: {expression}")
    return value


@dataclass(frozen=True, slots=True)
class _Given:
    metrics: Mapping[str, Series]
    begins: int


def _value(node: ast.expr, given: _Given) -> Value:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name) if name in given.metrics:
            return given.metrics[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _pairwise(_ARITHMETIC[type(op)], _value(left, given), _value(right, given))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            return _pairwise(_COMPARISONS[type(op)], _value(left, given), _value(right, given))
        case ast.BoolOp(op=ast.And(), values=values):
            both = partial(_pairwise, lambda a, b: a != 0 and b != 0)
            return reduce(both, (_value(one, given) for one in values))
        case ast.BoolOp(op=ast.Or(), values=values):
            either = partial(_pairwise, lambda a, b: a != 0 or b != 0)
            return reduce(either, (_value(one, given) for one in values))
        case ast.Call(func=ast.Name(id="MINUTE"), args=[series], keywords=[]):
            return _minutes(_value(series, given), given.begins)
        case ast.Call(func=ast.Name(id="FILL"), args=[series, filler], keywords=[]):
            return _fill(_value(series, given), _value(filler, given))
        case ast.Call(func=ast.Name(id="IF"), args=[condition, yes, no], keywords=[]):
            return _choose(_value(condition, given), _value(yes, given), _value(no, given))
    raise FormulaError(f"not understood: {ast.unparse(node)}")


def _pairwise(operation: Callable[[float, float], float], left: Value, right: Value) -> Value:
    if not isinstance(left, tuple) and not isinstance(right, tuple):
        return float(operation(left, right))
    lefts, rights = _spread(left, right), _spread(right, left)
    # Of two series: where only one has a value, the other's is 0 (arithmetic and comparisons alike).
    both = isinstance(left, tuple) and isinstance(right, tuple)
    return tuple(_apply(operation, a, b, missing=0.0 if both else None) for a, b in zip(lefts, rights, strict=True))


def _apply(
    operation: Callable[[float, float], float], left: float | None, right: float | None, missing: float | None
) -> float | None:
    if left is None and right is None:
        return None
    left, right = missing if left is None else left, missing if right is None else right
    if left is None or right is None:
        return None
    try:
        return float(operation(left, right))
    except ZeroDivisionError:
        # The period has no value, then.
        return None


def _spread(value: Value, other: Value) -> Series:
    if isinstance(value, tuple):
        return value
    assert isinstance(other, tuple)
    return (value,) * len(other)


def _fill(series: Value, filler: Value) -> Series:
    # Of a series without any value the guide says nothing. Ours have some: SQS tells zeros of a queue that is in use.
    if not isinstance(series, tuple) or isinstance(filler, tuple):
        raise FormulaError("FILL is known of a series and a number")
    return tuple(filler if value is None else value for value in series)


def _minutes(series: Value, begins: int) -> Series:
    # Of the timestamps: also where the series itself has no value.
    if not isinstance(series, tuple):
        raise FormulaError("MINUTE is known of a series")
    return tuple(float((begins + place) % 60) for place in range(len(series)))


def _choose(condition: Value, yes: Value, no: Value) -> Series:
    """For each data point of the condition; what it has none of is dropped."""
    if not isinstance(condition, tuple):
        raise FormulaError("IF is known of a condition that is a series")
    chosen: list[float | None] = []
    for asked, true, false in zip(condition, _spread(yes, condition), _spread(no, condition), strict=True):
        if asked is None:
            chosen.append(None)
        elif asked != 0:
            # True, and nothing to say: 0, where a false one is dropped. So the page has it.
            chosen.append(0.0 if true is None else true)
        else:
            chosen.append(false)
    return tuple(chosen)


@dataclass(frozen=True, slots=True)
class Rule:
    """What an alarm asks of the numbers."""

    comparison: str
    threshold: float
    periods: int
    missing: str
    """`breaching` or `notBreaching`."""
    needed: int = 0
    """Datapoints to alarm; 0: all of `periods`."""

    def fires(self, values: Sequence[float | None]) -> bool:
        """Whether the alarm is in ALARM after these periods, the oldest first.

        CloudWatch looks at more periods than it judges (how many more is not told), and counts a missing
        one only where it has found too few others: silence is heard later than a number would be.
        """
        breaches = _BREACHES[self.comparison]
        found = [breaches(value, self.threshold) for value in values if value is not None][-self.periods :]
        filled = found + [{"breaching": True, "notBreaching": False}[self.missing]] * (self.periods - len(found))
        return sum(filled) >= (self.needed or self.periods)
