"""`turnstile demo`: the main job, from one command on a bare machine, with a kill in the middle and a check at the end."""
