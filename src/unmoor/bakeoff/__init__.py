"""Tunes every candidate on the plan's traffic and compares them, interleaved, with intervals."""
