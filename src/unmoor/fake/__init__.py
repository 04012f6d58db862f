"""A fake engine on a real socket, shipped for users and tests."""
