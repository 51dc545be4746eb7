"""What people run: the command line, the local stack, redrive."""
