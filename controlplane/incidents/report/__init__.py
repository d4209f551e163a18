"""A readable report of an exported incident, made of the export alone: a file can be told again."""
