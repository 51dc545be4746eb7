"""The commands of `turnstile`, a file each."""
