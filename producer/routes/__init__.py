"""The routes of the API: HTTP in, HTTP out. What a request means is decided elsewhere."""
