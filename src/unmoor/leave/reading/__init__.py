"""Recorded requests and answers into `Uses`: each walked once, none of their text kept but what checks run."""
