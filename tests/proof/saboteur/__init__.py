"""The saboteur: removes one check of the product at a time, and a test must convict it."""
