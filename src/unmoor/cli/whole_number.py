"""Whole numbers as people write them on a command line."""

from __future__ import annotations

import click


class WholeNumber(click.IntRange):
    """A whole number of a range, both ends included. An option's `type`; errors call it that."""

    name = "whole number"
