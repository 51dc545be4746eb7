"""SQS for measurements: every call costs the same however long the queue is, and is counted.

The emulator of the local stack scans its queue at each receive and looks every 100 ms for a waiting poll, so a
measurement of a worker on it would measure the emulator. This one speaks just enough of the JSON protocol for the
contenders: standard queues, no signatures checked, loopback only.
"""
