"""The routes of the API: they translate between HTTP and the rest of the code, and decide nothing."""
