"""One file for each group of checks; each gives `CHECK`, with its kinds of finding. `registry.py` names them all."""
