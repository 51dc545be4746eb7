"""What an option that takes a float may say. Imports nothing that waits."""

import math

import typer


def check_finite(number: float | None) -> float | None:
    """The value, if it is neither negative, nor endless, nor no number.

    A `min` alone lets by what is endless, and with an older click also `nan`.
    """
    if number is not None and not 0 <= number < math.inf:
        raise typer.BadParameter("must be a finite number, and not negative")
    return number
