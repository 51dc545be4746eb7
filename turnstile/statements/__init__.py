"""The statements that change turns: one verb a file, in the order of a turn's life."""
