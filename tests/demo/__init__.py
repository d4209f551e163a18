"""The demo of `make up`, as a person sees it; in the long tier."""
