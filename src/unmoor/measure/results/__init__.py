"""Result files of benchmark clients: one reader a format, one noun, and what in them cannot be trusted."""
