"""Tools for the developer's machine. The production image does not contain them."""
