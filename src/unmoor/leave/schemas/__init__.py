"""Schemas, regexes, grammars and choices: what each side's grammar layer makes of them."""
