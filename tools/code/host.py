"""opta's side of a running program: what it is told, and what it may ask for."""

from __future__ import annotations

from tools.code.channel import Channel, ChannelError
from tools.definition import JsonObject

_LAST = frozenset({"returned", "threw", "unusable"})


class Host:
    """Serves the program of one call."""

    def __init__(self, call: JsonObject) -> None:
        """`call` is the frame that starts the program."""
        self._call = call

    async def serve(self, channel: Channel) -> JsonObject | None:
        """Start the program and return its last frame, None where it ends without one.

        Raises ChannelError.
        """
        frames = channel.open()
        async for frame in frames:
            kind = frame.get("type")
            if kind in _LAST:
                return frame
            if kind == "ready":
                channel.send(self._call)
            else:
                raise ChannelError(f"sent a frame that is not known: {str(kind)[:40]!r}")
        return None
