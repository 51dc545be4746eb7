"""What the checker must convict and acquit, by subject: evidence made of scenes."""
