"""What this machine's client can carry, found out against a server of known pace."""
