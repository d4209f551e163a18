"""Versioned, immutable operator state: manifests of Arrow files (DESIGN, section 3)."""
