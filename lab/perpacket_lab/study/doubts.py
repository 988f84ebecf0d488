"""The thresholds of doubts about runs."""

CLIENT_IDLE_LEAST = 0.10
"""The least idle share of the clients' processor time. Below this share, the clients may be the
limit, and the result may include queueing in the clients."""
