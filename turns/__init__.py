"""What both sides of the queue agree on: the turn, its states, its row, its message.

`producer` and `worker` import this package and never each other. Each external system has one home here: all SQL that
touches turns lives in the modules of this package, all SQS calls are asked for in `message_queue`.
"""
