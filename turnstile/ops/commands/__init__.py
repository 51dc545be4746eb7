"""The commands of `turnstile`, one file each."""
