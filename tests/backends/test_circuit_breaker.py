"""The circuit breaker."""

from turnstile.backends.circuit_breaker import Circuit


def test_after_a_failure_no_call_is_allowed_during_the_pause() -> None:
    circuit = Circuit(first_pause_seconds=1.0)
    circuit.failed(10.0)

    assert [circuit.allows(now) for now in (10.0, 10.99, 11.0)] == [False, False, True]


def test_the_pause_doubles_with_each_failed_probe_up_to_the_longest() -> None:
    circuit = Circuit(first_pause_seconds=1.0, longest_pause_seconds=3.0)
    now, pauses = 0.0, []
    for _ in range(4):
        circuit.failed(now)
        began = now
        while not circuit.allows(now):
            now += 0.5
        pauses.append(now - began)

    assert pauses == [1.0, 2.0, 3.0, 3.0]


def test_concurrent_failures_start_one_pause() -> None:
    circuit = Circuit(first_pause_seconds=1.0)
    for _ in range(50):
        circuit.failed(10.0)

    assert circuit.allows(11.0)


def test_a_success_resets_the_circuit() -> None:
    circuit = Circuit(first_pause_seconds=1.0)
    circuit.failed(0.0)
    circuit.failed(1.0)
    circuit.succeeded()
    assert circuit.allows(1.0)

    circuit.failed(10.0)

    assert circuit.allows(11.0)


def test_with_a_threshold_of_two_single_failures_open_nothing() -> None:
    circuit = Circuit(threshold=2)
    for now in range(10):
        assert circuit.allows(now)
        circuit.failed(now)
        assert circuit.allows(now)
        circuit.succeeded()


def test_an_open_circuit_allows_one_probe_per_pause() -> None:
    circuit = Circuit(first_pause_seconds=1.0)
    circuit.failed(10.0)

    assert [circuit.allows(11.0) for _ in range(5)] == [True, False, False, False, False]
