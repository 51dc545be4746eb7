"""The wheel: what is in it, and `make wheel-check`, which follows README from it in a folder of its own."""
