"""How fast it is: `make bench` compares the product with its peers, on one machine, in interleaved rounds."""
