"""The three systems behind the product, a folder each, and what calls of any of them need. No turn in it."""
