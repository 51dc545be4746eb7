"""What seals and opens the contents of conversations, wherever they are stored. Pure but for the random nonces."""
