"""`turnstile demo`: the whole system from one command on a bare machine, with a killed worker and a final check."""
