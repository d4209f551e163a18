"""Names from the server for the shell's completion. Without an answer of the server there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from cli.paths import resource
from cli.session import session_of
from cli.webhook_id import webhook_id

if TYPE_CHECKING:
    from cli.client import Rest

TIMEOUT = 2.0
MOST = 500

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names(kind: str, field: str = "name", describe: str = "", *, pages: bool = True) -> Completer:
    """Completes with `field` of the rows of a list resource; `describe` is shown beside it. pages: whether
    the list has any."""

    def rows(rest: Rest) -> list[dict[str, Any]]:
        return rest.rows(resource(kind), most=MOST) if pages else list(rest.get(resource(kind)))

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        taken = context.params.get(parameter.name or "") or ()
        return [
            CompletionItem(str(row[field]), help=str(row.get(describe) or "") or None)
            for row in _asked(context, rows)
            if str(row.get(field, "")).startswith(incomplete) and str(row[field]) not in taken
        ]

    return complete


def words(known: Iterable[str]) -> Completer:
    """Completes with names that need no request."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        taken = context.params.get(parameter.name or "") or ()
        return [CompletionItem(word) for word in known if word.startswith(incomplete) and word not in taken]

    return complete


def audited(what: str) -> Completer:
    """Completes with the `actors` or `actions` that occur in the audit trail."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found = _asked(context, lambda rest: list(rest.get(resource("audit", "choices"))[what]))
        return [CompletionItem(word) for word in found if word.startswith(incomplete)]

    return complete


def deliveries(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Those of the webhook given before, newest first."""

    def ask(rest: Rest) -> list[dict[str, Any]]:
        number = webhook_id(rest, context.params["name"])
        return rest.rows(resource("webhooks", number, "deliveries"), most=MOST)

    return [
        CompletionItem(str(row["id"]), help=f"{row['kind']}, {row['state']}")
        for row in _asked(context, ask)
        if str(row["id"]).startswith(incomplete)
    ]


def priorities(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """`O3[0]=` for each query of the topology given before."""
    if "=" in incomplete:
        return []
    return [
        CompletionItem(f"{row['partition']}=", help=f"priority {row['priority']}, {row['status']}")
        for row in _rows(context, lambda given: resource("topologies", given["topology"], "queries"))
        if str(row["partition"]).startswith(incomplete)
    ]


def queries(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The queries of the topology given before."""
    return [
        CompletionItem(str(row["partition"]), help=f"priority {row['priority']}, {row['status']}")
        for row in _rows(context, lambda given: resource("topologies", given["topology"], "queries"))
        if str(row["partition"]).startswith(incomplete)
    ]


def checkpoints(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Those of the topology given before that can be restored."""
    return [
        CompletionItem(str(row["epoch"]), help=str(row["ended_at"]))
        for row in _rows(context, lambda given: resource("topologies", given["name"], "checkpoints"))
        if row["stored"] and str(row["epoch"]).startswith(incomplete)
    ]


def racks(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    found = {str(row["rack"]) for row in _rows(context, lambda _: resource("nodes")) if row.get("rack")}
    return [CompletionItem(rack) for rack in sorted(found) if rack.startswith(incomplete)]


def _rows(context: click.Context, path: Callable[[dict[str, Any]], str]) -> list[dict[str, Any]]:
    """The rows at a path that may depend on the arguments before."""
    return _asked(context, lambda rest: rest.rows(path(context.params), most=MOST))


def _asked(context: click.Context, ask: Callable[[Rest], list[Any]]) -> list[Any]:
    from cli.client import Rest

    session = session_of(context)
    try:
        rest = Rest(session.target, timeout=TIMEOUT)
        try:
            return ask(rest)
        finally:
            rest.close()
    except Exception:  # a shell that waits for a key must not be shown a traceback
        return []


TOPOLOGIES = names("topologies", describe="status")
NODES = names("nodes", describe="state")
INCIDENTS = names("incidents", "number", describe="state")
OPERATIONS = names("operations", "id", describe="kind")
SAVEPOINTS = names("savepoints", describe="topology")
PIPELINES = names("pipelines", describe="description", pages=False)
TOKENS = names("tokens", "token_key", describe="created")
WEBHOOKS = names("webhooks")
ALERT_RULES = names("alert-rules", describe="metric")
ALERTS = names("alerts", "id", describe="text")
SILENCES = names("silences", "id", describe="reason")
