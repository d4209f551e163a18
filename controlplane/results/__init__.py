"""Results of queries: the newest rows that count, read by a process of its own for each question.

DuckDB reads the files. It is not loaded into the web process: a question could take its memory and its
processor time, and there both are every page's.
"""
