"""Product pages of the shop."""

from slugs import slugify


def product_url(name):
    return f"/products/{slugify(name)}"
