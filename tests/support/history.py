"""What makes a history one that every server takes."""

from __future__ import annotations

from agent.messages import AssistantMessage, ToolMessage, UserMessage


def answered(messages):
    """Tell whether every call is directly followed by its result and no message stays open."""
    expected = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not expected or message.call.id != expected.pop(0).id:
                return False
        elif expected:
            return False
        elif isinstance(message, AssistantMessage):
            expected = list(message.calls)
    return not expected and not isinstance(messages[-1], UserMessage)
