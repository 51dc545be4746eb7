"""`make year`: what a year of turns leaves behind while the retention deletes them."""
