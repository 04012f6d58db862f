"""Dated facts and prices, prediction with its error, gates, cost and the verdict."""
