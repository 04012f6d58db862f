"""Between a log in columns and a workload of requests: the tree's edges are a workload's segments, and back."""

from __future__ import annotations

from unmoor.core.traffic import Workload
from unmoor.traffic.log import Traffic


def workload_of(traffic: Traffic) -> Workload:
    """The log as requests for prediction, load and synthesis; segments are the edges of its tree.

    Raises TrafficError for a log without times, or with a request whose answer's length is unknown.
    """
    raise NotImplementedError


def traffic_of(workload: Workload) -> Traffic:
    """The workload in columns, with the tree that its segments make; content is told apart by segments."""
    raise NotImplementedError
