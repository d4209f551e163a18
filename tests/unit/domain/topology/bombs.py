"""Short YAML texts that stand for much more than they say."""

from __future__ import annotations


def merge_keys(levels: int, width: int) -> str:
    """Each level merges the one before it `width` times: ``width ** levels`` pairs of `width` keys."""
    lines = ["l0: &l0 {" + ", ".join(f"k{index}: 1" for index in range(width)) + "}"]
    for level in range(1, levels):
        merged = ", ".join([f"*l{level - 1}"] * width)
        lines.append(f"l{level}: &l{level} {{<<: [{merged}]}}")
    return "\n".join(lines)
