"""What is run for itself: chaos, crash points, planted bugs, load; and the checker that judges them."""
