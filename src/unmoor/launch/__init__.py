"""Installs, starts, waits for and stops engines, each in an isolated environment of its own."""
