"""What all commands have in common: options, output, exit codes, and the question before a change."""
