"""Prometheus's judgement of a rule over recorded scrapes, as far as infra/prometheus/alerts.yml asks for it.

The parser is promql_parser; the meaning of what it parses is that of Prometheus's documentation ("Operators", "Query functions",
"Alerting rules"). Where `promtool` is installed, tests/infra/test_alerts_fire.py asks it the same questions.
"""

import operator
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

import promql_parser as ast

Labels = frozenset[tuple[str, str]]
Vector = Mapping[Labels, float]
Value = Vector | float
Series = tuple[str, Labels]

STALE_SECONDS = 300.0
"""For so long Prometheus takes the last sample for the present one, unless its target no longer has the series."""


class ExpressionError(ValueError):
    """Not an expression that can be judged here."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """What all targets exported at one moment, in seconds."""

    at: float
    samples: Mapping[Series, float]


_COMPARISONS: dict[str, Callable[[float, float], bool]] = {">": operator.gt, ">=": operator.ge, "==": operator.eq}
_AGGREGATIONS: dict[str, Callable[[Sequence[float]], float]] = {"sum": sum, "max": max, "count": len}
_OVER_TIME: dict[str, Callable[[Sequence[float]], float]] = {"max_over_time": max, "count_over_time": len}


def first_alert(rule: Mapping[str, str], scrapes: Sequence[Scrape]) -> float | None:
    """When the rule first fires; None if it never does. It is evaluated after each scrape."""
    lasting = ast.parse_duration(rule["for"]).total_seconds() if "for" in rule else 0.0
    expression, recorded = ast.parse(rule["expr"]), _Recorded(scrapes)
    since: dict[Labels, float] = {}
    for scrape in scrapes:
        found = _Moment(recorded, scrape.at).vector(expression)
        since = {labels: since.get(labels, scrape.at) for labels in found}
        if any(scrape.at - began >= lasting for began in since.values()):
            return scrape.at
    return None


def evaluate(expression: str, scrapes: Sequence[Scrape]) -> Vector:
    """The vector of the expression at the last scrape."""
    return _Moment(_Recorded(scrapes), scrapes[-1].at).vector(ast.parse(expression))


class _Recorded:
    """The scrapes by selector."""

    def __init__(self, scrapes: Sequence[Scrape]) -> None:
        self._scrapes = scrapes
        self._times = [scrape.at for scrape in scrapes]
        self._selected: dict[str, list[dict[Labels, float]]] = {}

    def between(self, part: ast.VectorSelector, begin: float, end: float) -> list[tuple[float, dict[Labels, float]]]:
        """What the selector finds in each scrape of the time, both ends included."""
        if (found := self._selected.get(str(part))) is None:
            series = {one for scrape in self._scrapes for one in scrape.samples if one[0] == part.name}
            wanted = [one for one in series if all(_matches(by, dict(one[1])) for by in part.matchers.matchers)]
            found = [
                {one[1]: scrape.samples[one] for one in wanted if one in scrape.samples} for scrape in self._scrapes
            ]
            self._selected[str(part)] = found
        first, last = bisect_left(self._times, begin), bisect_right(self._times, end)
        return list(zip(self._times[first:last], found[first:last], strict=True))


class _Moment:
    def __init__(self, recorded: _Recorded, at: float) -> None:
        self._recorded = recorded
        self._at = at

    def vector(self, part: ast.Expr) -> Vector:
        value = self._value(part)
        return {frozenset(): value} if isinstance(value, float) else value

    def _value(self, part: ast.Expr) -> Value:
        match part:
            case ast.NumberLiteral():
                return float(part.val)
            case ast.ParenExpr():
                return self._value(part.expr)
            case ast.VectorSelector():
                return self._select(part)
            case ast.Call():
                return self._call(part)
            case ast.AggregateExpr():
                return self._aggregate(part)
            case ast.BinaryExpr():
                return self._binary(part)
        raise ExpressionError(f"{type(part).__name__}: {part}")

    def _select(self, part: ast.VectorSelector) -> Vector:
        seen = self._recorded.between(part, self._at - STALE_SECONDS, self._at)
        return seen[-1][1] if seen else {}

    def _range(self, part: ast.Expr) -> dict[Labels, list[tuple[float, float]]]:
        """The samples of each series within the range, with their times."""
        found: dict[Labels, list[tuple[float, float]]] = {}
        match part:
            case ast.MatrixSelector():
                begin = self._at - part.range.total_seconds()
                for at, samples in self._recorded.between(part.vector_selector, begin, self._at):
                    for labels, value in samples.items():
                        found.setdefault(labels, []).append((at, value))
            case ast.SubqueryExpr(range=timedelta() as reach, step=timedelta() as step):
                seconds = step.total_seconds()
                # Steps are multiples of their length, whenever the rule is evaluated.
                at = self._at - self._at % seconds
                while at >= self._at - reach.total_seconds():
                    for labels, value in _Moment(self._recorded, at).vector(part.expr).items():
                        found.setdefault(labels, []).insert(0, (at, value))
                    at -= seconds
            case _:
                raise ExpressionError(f"no range: {part}")
        return found

    def _call(self, part: ast.Call) -> Vector:
        name, args = part.func.name, part.args
        if name in ("increase", "rate"):
            seconds = args[0].range.total_seconds()
            rises = {labels: self._rise(samples, seconds) for labels, samples in self._range(args[0]).items()}
            return {
                labels: rise / (seconds if name == "rate" else 1.0)
                for labels, rise in rises.items()
                if rise is not None
            }
        if name in _OVER_TIME:
            over = _OVER_TIME[name]
            return {
                labels: float(over([value for _, value in samples])) for labels, samples in self._range(args[0]).items()
            }
        if name == "absent":
            return {} if self.vector(args[0]) else {frozenset(): 1.0}
        if name == "histogram_quantile":
            return _quantiles(float(args[0].val), self.vector(args[1]))
        raise ExpressionError(f"no function {name}")

    def _rise(self, samples: Sequence[tuple[float, float]], seconds: float) -> float | None:
        """By how much a counter rose, extrapolated to the ends of the range as Prometheus does."""
        if len(samples) < 2:
            return None
        (first_at, first), (last_at, last) = samples[0], samples[-1]
        rise = last - first + sum(earlier for (_, earlier), (_, later) in pairwise(samples) if later < earlier)
        spacing = (last_at - first_at) / (len(samples) - 1)
        to_start, to_end = first_at - (self._at - seconds), self._at - last_at
        if rise > 0 and first >= 0:
            to_start = min(to_start, (last_at - first_at) * first / rise)
        reach = last_at - first_at
        for gap in (to_start, to_end):
            reach += gap if gap < 1.1 * spacing else spacing / 2
        return rise * reach / (last_at - first_at)

    def _aggregate(self, part: ast.AggregateExpr) -> Vector:
        kept = set(part.modifier.labels) if part.modifier is not None else set[str]()
        groups: dict[Labels, list[float]] = {}
        for labels, value in self.vector(part.expr).items():
            groups.setdefault(frozenset(one for one in labels if one[0] in kept), []).append(value)
        return {labels: float(_AGGREGATIONS[str(part.op)](values)) for labels, values in groups.items()}

    def _binary(self, part: ast.BinaryExpr) -> Value:
        left, right, word = self._value(part.lhs), self._value(part.rhs), str(part.op)
        on = part.modifier.matching.labels if part.modifier is not None and part.modifier.matching is not None else None
        if isinstance(left, float) and isinstance(right, float):
            return _compute(word, left, right)
        if isinstance(left, float):
            assert not isinstance(right, float)
            return {labels: _compute(word, left, value) for labels, value in right.items()}
        if isinstance(right, float):
            pairs = {labels: (value, right) for labels, value in left.items()}
        else:
            others = {_key(labels, on): value for labels, value in right.items()}
            if word in ("and", "unless"):
                return {
                    labels: value for labels, value in left.items() if (_key(labels, on) in others) == (word == "and")
                }
            if word == "or":
                mine = {_key(labels, on) for labels in left}
                return {**left, **{labels: value for labels, value in right.items() if _key(labels, on) not in mine}}
            pairs = {
                labels: (value, others[_key(labels, on)])
                for labels, value in left.items()
                if _key(labels, on) in others
            }
        if word in _COMPARISONS and part.modifier is not None and part.modifier.return_bool:
            return {labels: float(_COMPARISONS[word](one, other)) for labels, (one, other) in pairs.items()}
        if word in _COMPARISONS:
            return {labels: one for labels, (one, other) in pairs.items() if _COMPARISONS[word](one, other)}
        return {labels: _compute(word, one, other) for labels, (one, other) in pairs.items()}


def _compute(word: str, left: float, right: float) -> float:
    if word == "/":
        # As Prometheus: no error. NaN is above and below nothing.
        return left / right if right else float("nan")
    if word == "*":
        return left * right
    raise ExpressionError(f"no operator {word} here")


def _key(labels: Labels, on: Sequence[str] | None) -> Labels:
    return labels if on is None else frozenset(one for one in labels if one[0] in on)


def _matches(matcher: ast.Matcher, labels: Mapping[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    match str(matcher.op).rpartition(".")[2]:
        case "Equal":
            return value == matcher.value
        case "Re":
            return re.fullmatch(matcher.value, value) is not None
        case other:
            raise ExpressionError(f"no matcher {other} here")


def _quantiles(quantile: float, buckets: Vector) -> Vector:
    """The quantiles of cumulative buckets, by linear interpolation within the bucket that has the rank."""
    groups: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        rest = frozenset(one for one in labels if one[0] != "le")
        groups.setdefault(rest, []).append((float(dict(labels)["le"]), count))
    found = {}
    for labels, bounds in groups.items():
        bounds.sort()
        if not bounds[-1][1]:
            continue
        rank = quantile * bounds[-1][1]
        place = next(number for number, (_, count) in enumerate(bounds) if count >= rank)
        if place == len(bounds) - 1:
            # Beyond the last bound nothing is known.
            found[labels] = bounds[-2][0]
            continue
        (lower, below) = bounds[place - 1] if place else (0.0, 0.0)
        upper, count = bounds[place]
        found[labels] = lower + (upper - lower) * (rank - below) / (count - below)
    return found
