"""One file for each engine and version; `base` names the version that a file starts from."""
