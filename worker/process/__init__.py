"""What a worker process needs beside the way of a turn: the heartbeat, health, the end."""
