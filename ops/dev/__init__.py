"""For the developer's machine; the production image does not carry it."""
