"""Verification: are the outputs exactly what the input and the specification say they must be?

Nothing here uses the engine's sources or operators. The input is read again from the original file, and
what the engine must have written by now is recomputed in SQL.
"""
