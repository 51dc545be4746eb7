"""The erasure of a session or a tenant: everything that it said and was told, wherever it is kept."""
