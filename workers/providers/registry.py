"""Which provider an installation uses."""

from __future__ import annotations

from pathlib import Path

from host.environment import Environment
from workers.providers.base import NodeProvider
from workers.providers.local import LocalNodeProvider
from workers.providers.script import ScriptNodeProvider


def provider_create(environment: Environment) -> NodeProvider:
    """The provider of this installation; raises `ProviderError` where it cannot work. The delays of local
    nodes are seeded with the secret key, so that they differ between installations but never between two
    processes of one."""
    if environment.provider == "script":
        return ScriptNodeProvider(script=Path(environment.provider_script))
    return LocalNodeProvider(
        home=environment.home,
        delay=environment.replacement_delay,
        seed=environment.secret_key[:8],
        cpu_cap=environment.cpu_caps,
    )
