"""Images that a person hands over with a message: `@screenshot.png`."""

from __future__ import annotations

import base64
from pathlib import Path

from agent.messages import Image
from tools.definition import ToolError
from tools.files.textfile import image_kind
from tools.files.workspace import Workspace

MAX_IMAGE_BYTES = 3_750_000
"""Some servers take 5 MB of an image at most, and in a request it is a third larger."""

_MEDIA_TYPES = {
    "PNG image": "image/png",
    "JPEG image": "image/jpeg",
    "GIF image": "image/gif",
    "WebP image": "image/webp",
}
"""What servers take."""


def read_image(workspace: Workspace, path: Path) -> Image:
    """Read an image file whose reading was allowed.

    Raises ToolError for a kind that servers do not take, FileProblem for a file that is too large
    or cannot be read.
    """
    data, _ = workspace.peek(path, MAX_IMAGE_BYTES)
    kind = image_kind(data)
    media_type = _MEDIA_TYPES.get(kind)
    if media_type is None:
        taken = ", ".join(name.removesuffix(" image") for name in _MEDIA_TYPES)
        raise ToolError(f"models take {taken}; this is {f'a {kind}' if kind else 'no image'}")
    return Image(media_type, base64.b64encode(data).decode())
