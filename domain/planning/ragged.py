"""Rows of different lengths in one array: the sparse side of the incidence matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ragged:
    """Row r is `values[starts[r] : starts[r] + lengths[r]]`."""

    starts: Integers
    lengths: Integers
    values: Integers

    @classmethod
    def of_matrix(cls, matrix: NDArray[np.bool_]) -> Ragged:
        """The columns that are set in each row, ascending."""
        row, column = np.nonzero(matrix)
        lengths = np.bincount(row, minlength=matrix.shape[0]).astype(np.int64)
        return cls(np.cumsum(lengths) - lengths, lengths, column.astype(np.int64))

    def row(self, index: int) -> Integers:
        start = self.starts[index]
        return self.values[start : start + self.lengths[index]]

    def gather(self, rows: Integers) -> tuple[Integers, Integers]:
        """The values of these rows in one array, and for each value the position in `rows` it is from."""
        lengths = self.lengths[rows]
        ends = lengths.cumsum()
        total = int(ends[-1]) if ends.size else 0
        origin = np.repeat(np.arange(len(rows)), lengths)
        shift = np.repeat(self.starts[rows] - ends + lengths, lengths)
        return self.values[shift + np.arange(total)], origin

    def sums(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each row the sum of the weights of its values."""
        origin = np.repeat(np.arange(len(self.lengths)), self.lengths)
        sums = np.bincount(origin, weights=weights[self.values], minlength=len(self.lengths))
        return sums.astype(np.float64)

    def counts(self, rows: Integers, width: int) -> Integers:
        """How many of these rows hold each value below `width`."""
        return np.bincount(self.gather(rows)[0], minlength=width)
