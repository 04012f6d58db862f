"""What ruins prefix sharing: the kinds that are known, each with its evidence and its fix, and what each one costs."""

from unmoor.traffic.breakers.breaker import Breaker, Place
from unmoor.traffic.breakers.watch import Watch

__all__ = ["Breaker", "Place", "Watch"]
