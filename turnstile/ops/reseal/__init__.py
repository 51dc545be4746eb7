"""`turnstile reseal`: brings all stored contents under the present key."""
