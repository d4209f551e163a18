"""The driver of one topology: the epoch loop over one PySpark application (DESIGN, sections 2 and 3)."""
