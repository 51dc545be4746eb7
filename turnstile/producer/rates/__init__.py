"""Rate limits: how many requests a tenant or a session may send in a window of time."""
