"""Who did what: the audit events, and the table that keeps them."""
