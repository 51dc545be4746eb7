"""Plots as SVG text: bars for what is compared, lines for what is distributed or goes on for a while. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 720
LEFT, RIGHT, TOP, BOTTOM = 190, 90, 44, 44
BAR, GAP = 22, 10
LINES_HEIGHT = 340
PANEL_HEIGHT, PANEL_GAP = 110, 34
COLOURS = ("#1f5fa8", "#c2571a", "#3c8c4a", "#7d4aa0", "#8a6d1b", "#5b6470", "#b03060", "#2a8f8f")
GREY = "#5b6470"


@dataclass(frozen=True, slots=True)
class Panel:
    """One of several plots over the same time: named lines of (seconds, value)."""

    title: str
    unit: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    logarithmic: bool = False


def bars(title: str, unit: str, values: Mapping[str, float]) -> str:
    """One horizontal bar for each name, the first in a colour of its own."""
    height = TOP + len(values) * (BAR + GAP) + 12
    longest = max(values.values(), default=0) or 1
    shapes = []
    for place, (name, value) in enumerate(values.items()):
        y = TOP + place * (BAR + GAP)
        width = (WIDTH - LEFT - RIGHT) * value / longest
        shapes += [
            _text(LEFT - 8, y + 16, name, anchor="end"),
            f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{GREY if place else COLOURS[0]}"/>',
            _text(LEFT + width + 6, y + 16, f"{value:,.3g}" if value < 100 else f"{value:,.0f}"),
        ]
    return _page(height, [_text(12, 24, f"{title} ({unit})", weight="bold"), *shapes])


def distributions(title: str, unit: str, series: Mapping[str, Sequence[float]]) -> str:
    """For each name which share of the values lies below x, on a logarithmic scale."""
    series = {name: sorted(max(value, 1e-3) for value in values) for name, values in series.items() if values}
    if not series:
        return _page(60, [_text(12, 24, f"{title}: nothing was measured")])
    low = math.floor(math.log10(min(values[0] for values in series.values())))
    high = max(low + 1, math.ceil(math.log10(max(values[-1] for values in series.values()))))
    left, right, bottom = 60, WIDTH - 170, LINES_HEIGHT - BOTTOM

    def x(value: float) -> float:
        return left + (right - left) * (math.log10(value) - low) / (high - low)

    def y(share: float) -> float:
        return bottom - (bottom - TOP) * share

    shapes = [_text(12, 24, f"{title} ({unit}, share of all below)", weight="bold")]
    for power in range(low, high + 1):
        shapes.append(_line(x(10.0**power), TOP, x(10.0**power), bottom))
        shapes.append(_text(x(10.0**power), bottom + 18, f"{10.0**power:g}", anchor="middle"))
    for share in (0.0, 0.5, 0.95, 1.0):
        shapes.append(_line(left, y(share), right, y(share)))
        shapes.append(_text(left - 6, y(share) + 4, f"{share:.0%}", anchor="end"))
    for place, (name, values) in enumerate(series.items()):
        step = max(1, len(values) // 200)
        kept = [*range(0, len(values), step), len(values) - 1]
        points = " ".join(f"{x(values[n]):.1f},{y((n + 1) / len(values)):.1f}" for n in kept)
        colour = COLOURS[place % len(COLOURS)]
        shapes.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        shapes.append(_text(right + 12, TOP + 14 + 20 * place, name, colour=colour))
    return _page(LINES_HEIGHT, shapes)


def panels(title: str, seconds: float, shown: Sequence[Panel], bands: Sequence[tuple[float, float]] = ()) -> str:
    """Plots above one another, all from 0 to `seconds`; `bands`, stretches of that time, are shaded in each.

    What lies before or after that time is not shown.
    """
    left, right = 60, WIDTH - 150
    height = TOP + len(shown) * (PANEL_HEIGHT + PANEL_GAP) + 8
    shapes = [_text(12, 24, title, weight="bold")]

    def x(second: float) -> float:
        return left + (right - left) * second / seconds

    for place, panel in enumerate(shown):
        top = TOP + place * (PANEL_HEIGHT + PANEL_GAP) + 16
        bottom = top + PANEL_HEIGHT - 16
        shapes.append(_text(left, top - 6, f"{panel.title} ({panel.unit})"))
        for begun, ended in bands:
            shapes.append(
                f'<rect x="{x(begun):.1f}" y="{top}" width="{x(ended) - x(begun):.1f}" height="{bottom - top}"'
                ' fill="#f3ead8"/>'
            )
        for number in range(5):
            second = seconds * number / 4
            shapes.append(_line(x(second), top, x(second), bottom))
            shapes.append(_text(x(second), bottom + 14, _told_time(second), anchor="middle", colour=GREY))
        shapes += _panel_lines(panel, seconds, x, top, bottom, right)
    return _page(height, shapes)


def _panel_lines(
    panel: Panel, seconds: float, x: Callable[[float], float], top: float, bottom: float, right: float
) -> list[str]:
    values = [value for points in panel.series.values() for _, value in points]
    low, high = _scale(values, logarithmic=panel.logarithmic)

    def y(value: float) -> float:
        if panel.logarithmic:
            value = math.log10(max(value, 10.0**low))
        return bottom - (bottom - top) * (value - low) / (high - low)

    marks = [10.0**power for power in range(int(low), int(high) + 1)] if panel.logarithmic else [low, high / 2, high]
    shapes = []
    for mark in marks:
        shapes.append(_line(x(0), y(mark), right, y(mark)))
        shapes.append(_text(x(0) - 6, y(mark) + 4, f"{mark:,.4g}", anchor="end", colour=GREY))
    for place, (name, points) in enumerate(panel.series.items()):
        colour = COLOURS[place % len(COLOURS)]
        drawn = " ".join(f"{x(second):.1f},{y(value):.1f}" for second, value in points if 0 <= second <= seconds)
        shapes.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
        shapes.append(_text(right + 10, top + 10 + 12 * place, name, colour=colour))
    return shapes


def _scale(values: Sequence[float], *, logarithmic: bool) -> tuple[float, float]:
    """From where to where the axis goes; powers of ten if it is logarithmic, and five of them at most."""
    if logarithmic:
        high = math.ceil(math.log10(max(max(values, default=1.0), 1e-3)))
        positive = [value for value in values if value > 0]
        low = math.floor(math.log10(min(positive, default=10.0 ** (high - 1))))
        return max(min(low, high - 1), high - 5), high
    largest = max(values, default=0.0) or 1.0
    step = 10.0 ** math.floor(math.log10(largest))
    return 0.0, next(step * factor for factor in (1, 2, 4, 6, 8, 10) if step * factor >= largest)


def _told_time(seconds: float) -> str:
    return f"{seconds / 60:.3g} min" if seconds >= 120 else f"{seconds:.3g} s"


def _page(height: int, shapes: Sequence[str]) -> str:
    style = 'font-family="system-ui, sans-serif" font-size="13"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {style}>'
    # A ground of its own: readers in the dark would see dark text on a dark page.
    return "\n".join([head, f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>', *shapes, "</svg>"]) + "\n"


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", colour: str = "#222222"
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-weight="{weight}" fill="{colour}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#dddddd"/>'
