"""`python -m unmoor.cli`, the same as `unmoor`."""

from unmoor.cli.main import main

main()
