"""The conformance suite for benchmark clients: scripted answers, and what a client made of them."""
