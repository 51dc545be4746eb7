"""What a webhook may be sent to, and how it is signed. Pure."""
