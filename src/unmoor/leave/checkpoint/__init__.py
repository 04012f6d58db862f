"""What a folder of weights is, read from its headers alone: never a pickle, never a whole tensor."""
