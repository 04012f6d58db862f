"""What each engine takes, answers and is called by, per version: flags, request fields, domains, routes, metrics."""
