"""Who may call the API: a caller, the roles, and the form of a key. Pure."""
