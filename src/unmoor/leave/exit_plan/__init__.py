"""The exit plan: what leaving the engine would take, on one page that a risk officer can file."""
