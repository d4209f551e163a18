"""Which provider an installation uses."""

from __future__ import annotations

from host.environment import Environment
from workers.providers.base import NodeProvider
from workers.providers.local import LocalNodeProvider


def provider_create(environment: Environment) -> NodeProvider:
    """The provider of this installation; the delays of its requests are seeded with the secret key, so
    that they differ between installations but never between two processes of one."""
    return LocalNodeProvider(
        home=environment.home,
        delay=environment.replacement_delay,
        seed=environment.secret_key[:8],
        cpu_cap=environment.cpu_caps,
    )
