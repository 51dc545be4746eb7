"""Telemetry: what the processes tell about themselves by OpenTelemetry."""
