"""What every process does at its start: logs, metrics, checks of its servers, signals."""
