"""The judge of the alarms' formulas judges as CloudWatch does: the examples of its User Guide, and what they leave open."""

import pytest

from tests.infra.metric_math import FormulaError, Rule, Series, evaluate

_ = None


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("metric1 < metric2", (0, 0, 1, 0)),
        ("metric1 >= 30", (1, 0, 0, 0)),
        ("metric1 > 15 AND metric2 > 15", (1, 0, 0, 0)),
    ],
)
def test_comparisons_of_the_guide(expression: str, result: Series) -> None:
    assert evaluate(expression, {"metric1": (30, 20, 0, 0), "metric2": (20, _, 20, _)}) == result


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("IF(metric1, metric2, metric3)", (30, 0, 20, _, _)),
        ("IF(metric1, 5, metric3)", (5, 5, 20, _, _)),
        ("IF(metric1, metric2, 5)", (30, 0, 5, 5, _)),
    ],
)
def test_conditions_of_the_guide(expression: str, result: Series) -> None:
    metrics = {"metric1": (1, 1, 0, 0, _), "metric2": (30, _, 0, 0, 30), "metric3": (0, 0, 20, _, 20)}

    assert evaluate(expression, metrics) == result


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("a / b", (2, _, 0, _)),
        ("100 * a / b - 1", (199, _, -1, _)),
        ("a + 1", (5, 5, _, _)),
        ("a OR b", (1, 1, 1, _)),
        ("a != 4", (0, 0, _, _)),
        ("a <= b", (0, 0, 1, _)),
        ("FILL(a, 7)", (4, 4, 7, 7)),
        ("IF(FILL(a, 0) == 0, 1, 0)", (0, 0, 1, 1)),
    ],
)
def test_missing_data_and_a_division_by_zero(expression: str, result: Series) -> None:
    assert evaluate(expression, {"a": (4, 4, _, _), "b": (2, 0, 3, _)}) == result


def test_the_minute_is_that_of_the_timestamp_also_where_there_is_no_value() -> None:
    assert evaluate("MINUTE(a)", {"a": (7, _, 7, 7)}, begins=58) == (58, 59, 0, 1)
    assert evaluate("IF(a > 0 AND MINUTE(a) < 59, 1, 0)", {"a": (7, 7, 7, 0)}, begins=58) == (1, 0, 1, 0)


@pytest.mark.parametrize(
    "expression",
    [
        "MINUTE(1)", "1 + 1", "AVG(a)", "a > 1 > 0", "missing > 0", "FILL(a, REPEAT)", "a ^ 2", "IF(a, 1)", "FILL(a, a)",
    ],
)  # fmt: skip
def test_a_formula_that_it_does_not_understand_is_refused(expression: str) -> None:
    with pytest.raises(FormulaError):
        evaluate(expression, {"a": (1, 2)})


@pytest.mark.parametrize(
    ("points", "needed", "when_breaching", "when_not"),
    [
        ("0-X-X", 3, False, False),
        ("0----", 3, False, False),
        ("-----", 3, True, False),
        ("0XX-X", 3, True, True),
        ("----X", 3, True, False),
        ("X----", 3, True, False),
        ("0-X-X", 2, True, True),
        ("00X0X", 2, True, True),
        ("0-X--", 2, True, False),
        ("----0", 2, True, False),
        ("----X", 2, True, False),
    ],
)
def test_the_guides_tables_of_missing_data(points: str, needed: int, when_breaching: bool, when_not: bool) -> None:
    """Three periods are judged of five that CloudWatch has looked at; X breaches, 0 does not, - is missing."""
    values = [{"X": 2.0, "0": 1.0, "-": None}[point] for point in points]

    assert Rule("GreaterThanThreshold", 1.0, 3, "breaching", needed).fires(values) is when_breaching
    assert Rule("GreaterThanThreshold", 1.0, 3, "notBreaching", needed).fires(values) is when_not
