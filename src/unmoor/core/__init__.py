"""The nouns all rooms share, the error tree, statistics without a domain, and each quantity defined once."""
