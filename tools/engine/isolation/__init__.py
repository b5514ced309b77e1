"""Walls around processes: what this machine can enforce, proven by trying, and how it is done."""
