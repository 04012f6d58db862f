"""Evidence on hardware that is not here: kernel tables, the traffic simulated on them, and what may be said of it."""
