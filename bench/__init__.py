"""How fast it is: `make bench` holds the product beside its peers, on one machine, in interleaved rounds."""
