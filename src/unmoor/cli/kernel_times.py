"""Which kernel tables there are on this machine, for the verbs that ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unmoor.choose.prediction.kernel_tables import TableFinder


def table_finder() -> TableFinder:
    """The tables that ship, and those of the `predict` extra for any other model where it is installed."""
    from importlib.util import find_spec

    if find_spec("aiconfigurator_core") is None:
        from unmoor.choose.prediction.kernel_tables import find_table

        return find_table
    from unmoor.choose.prediction.live_tables import live_tables

    return live_tables
