"""What is run for itself: chaos, crash points, simulation, planted bugs, load; and the checker that judges them."""
