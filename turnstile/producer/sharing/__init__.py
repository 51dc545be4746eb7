"""What the requests of a process share: each tenant gets its part of it, and no tenant can take all."""
