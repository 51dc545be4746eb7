"""Who may call the API: its keys."""
