"""What all settings together come to, as one frozen object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from tools.record import record

if TYPE_CHECKING:
    from agent.settings_files import Layer, Value
    from tools.confinement import IsolationSettings
    from tools.hook_settings import HookSettings
    from tools.permissions.mode import Mode
    from tools.permissions.rules import Rule, Verdict
    from tools.registry import ToolSettings

DEFAULT = "default"
"""The source of a value that nobody set."""


@record
class TeamSettings:
    """What the settings say of a team (E151). `place` is where it was turned on."""

    enabled: bool = False
    shared_tools: bool = False
    url: str = ""
    org: str = ""
    directory: str = ""
    revision: str = ""
    token_env: str = ""
    refresh_s: int = 0
    timeout_s: int = 0
    place: str = ""


@record
class Settings:
    """All settings of a run. `source()` tells where a value came from; sizes are in tokens.

    `switches` maps tool names to on or off. `warnings` are lines for the person. `layers` is what
    each place said, the nearest last, and `values` which of it counts.
    """

    model: str
    base_url: str
    api: str
    api_key: str = field(repr=False)
    api_key_env: str
    request: Mapping[str, Any]
    headers: Mapping[str, str] = field(repr=False)
    server: Mapping[str, Any]
    idle_timeout_s: int
    context_window: int | None
    max_output_tokens: int | None
    max_turns: int | None
    max_tokens_total: int | None
    price_input: float | None
    price_output: float | None
    price_per_1000: float
    mode: Mode
    skip_permissions: bool
    rules: tuple[Rule, ...]
    isolation: IsolationSettings
    default_verdict: Verdict
    switches: Mapping[str, bool]
    undo: bool
    bell_s: float
    title: bool
    hooks: HookSettings
    hook_timeout_s: int
    show_token_costs: bool
    disable_local_tools: bool
    load_custom_tools: bool
    max_execution_ms: int | None
    max_custom_tools: int
    tool_budget: int
    mcp_enabled: bool
    max_mcp_tools: int
    teams: TeamSettings
    config_home: str
    config_file: str
    profile: str
    warnings: tuple[str, ...]
    values: Mapping[str, Value] = field(repr=False)
    layers: Sequence[Layer] = field(repr=False)

    @property
    def secret_variables(self) -> tuple[str, ...]:
        """Environment variables with opta's own keys: no child gets them (R38)."""
        return (self.api_key_env, self.teams.token_env)

    def source(self, key: str) -> str:
        """Return where the value of `key` (`model`, `tools.git`, …) was set."""
        return self.values[key].source if key in self.values else DEFAULT

    def tool_settings(self) -> ToolSettings:
        """Return what the registry of tools needs to know."""
        from tools.registry import ToolSettings

        enforced = self.values["enforce"].value if "enforce" in self.values else ()
        return ToolSettings(
            switches=dict(self.switches),
            max_custom=self.max_custom_tools,
            max_served=self.max_mcp_tools,
            budget=self.tool_budget,
            load_custom=self.load_custom_tools,
            max_execution_ms=self.max_execution_ms,
            enforced=frozenset(
                name.removeprefix("tools.") for name in enforced if name.startswith("tools.")
            ),
        )
