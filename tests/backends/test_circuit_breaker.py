"""The circuit breaker."""

from turnstile.backends.circuit_breaker import Circuit


def test_a_new_circuit_lets_calls_through() -> None:
    assert Circuit().allows(0.0)


def test_after_a_failure_nothing_is_tried_until_the_pause_is_over() -> None:
    circuit = Circuit(first_pause_seconds=1.0)
    circuit.failed(10.0)

    assert [circuit.allows(now) for now in (10.0, 10.99, 11.0)] == [False, False, True]


def test_the_pause_doubles_while_trials_fail_and_stops_at_the_longest() -> None:
    circuit = Circuit(first_pause_seconds=1.0, longest_pause_seconds=3.0)
    now, pauses = 0.0, []
    for _ in range(4):
        circuit.failed(now)
        began = now
        while not circuit.allows(now):
            now += 0.5
        pauses.append(now - began)

    assert pauses == [1.0, 2.0, 3.0, 3.0]


def test_calls_that_were_under_way_together_count_as_one_failure() -> None:
    circuit = Circuit(first_pause_seconds=1.0)
    for _ in range(50):
        circuit.failed(10.0)

    assert circuit.allows(11.0)


def test_a_success_forgets_the_failures_before_it() -> None:
    circuit = Circuit(first_pause_seconds=1.0)
    circuit.failed(0.0)
    circuit.failed(1.0)
    circuit.succeeded()
    assert circuit.allows(1.0)

    circuit.failed(10.0)

    assert circuit.allows(11.0)


def test_one_failure_among_successes_opens_nothing_where_two_in_a_row_are_asked_for() -> None:
    circuit = Circuit(threshold=2)
    for now in range(10):
        assert circuit.allows(now)
        circuit.failed(now)
        assert circuit.allows(now)
        circuit.succeeded()


def test_an_open_circuit_lets_one_probe_through_per_pause() -> None:
    circuit = Circuit(first_pause_seconds=1.0)
    circuit.failed(10.0)

    assert [circuit.allows(11.0) for _ in range(5)] == [True, False, False, False, False]
