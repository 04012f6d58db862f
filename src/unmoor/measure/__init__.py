"""The load generator and its clocks, and the run directory that keeps every record."""
