"""Thresholds past which a run's own numbers cast doubt on it."""

CLIENT_IDLE_LEAST = 0.10
"""Share of the clients' processor time that must be idle for the server to be the limit. Below it
the result includes the client's own queueing."""
