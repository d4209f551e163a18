"""What tests and benchmarks share to run the whole installation; it imports neither of them."""
