import unittest

from shop import product_url
from slugs import slugify


class Slugs(unittest.TestCase):
    def test_lower_case(self):
        self.assertEqual(slugify("Blue Shoes"), "blue-shoes")

    def test_punctuation(self):
        self.assertEqual(slugify("Hello, World!"), "hello-world")

    def test_spaces_in_a_row(self):
        self.assertEqual(slugify("Red   Hat "), "red-hat")

    def test_product_url(self):
        self.assertEqual(product_url("Blue Shoes"), "/products/blue-shoes")


if __name__ == "__main__":
    unittest.main()
