"""Turns titles into the last part of a URL."""


def slugify(title):
    """Return `title` in lower case, words joined by single hyphens, punctuation dropped."""
    words = title.lower().split(" ")
    return "-".join(word.strip("!?.,") for word in words)
