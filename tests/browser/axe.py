"""axe-core in the page: the barriers that it finds for users with a disability."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("axe.min.js")
"""A copy of the front end's dev dependency, made by its build: the tests need no Node."""

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
SEVERE = ("serious", "critical")
RUN = """async ({rules, only}) => {
  const options = only ? {runOnly: {type: "rule", values: only}} : {runOnly: {type: "tag", values: rules}};
  const {violations} = await axe.run(document, {...options, resultTypes: ["violations"]});
  return violations.map((one) => ({id: one.id, impact: one.impact,
    nodes: one.nodes.slice(0, 4).map((node) => `${node.target.join(" ")}: ${node.failureSummary}`)}));
}"""


def prepare(page: Any) -> None:
    """Load axe into the page, which its policy would not permit; it stays there until a reload."""
    page.evaluate(SOURCE.read_text(encoding="utf-8") + "; undefined")


def violations(page: Any, *, colours_only: bool = False) -> list[str]:
    """Serious and critical violations, one line each. Themes differ only in colours, so a second theme needs
    `colours_only`."""
    found = page.evaluate(RUN, {"rules": RULES, "only": ["color-contrast"] if colours_only else None})
    return [
        f"{one['id']} ({one['impact']}): {node}"
        for one in found
        if one["impact"] in SEVERE
        for node in one["nodes"]
    ]
