"""The settings of a process: read in one place, validated whole, frozen."""
