"""The example pages in a real browser, against real processes of the product."""
