"""The pages of docs/runbooks, each followed line by line in a situation of its kind."""
