"""A submit: from the body of a request to a committed turn and its wake-up."""
