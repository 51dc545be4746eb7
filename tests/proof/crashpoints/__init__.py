"""The crash-point matrix: at every await of a turn's way something goes wrong, and everything must end clean.

    python -m tests.proof.crashpoints [--seed N] [--points PATTERN] [--faults kill stop ...] [--short SECONDS] [--jobs N]

A cell is a point (an await of the product, `points.txt`), a fault that strikes there (`passing.py`), Redis kept or flushed in
the same moment, and a standard or a FIFO queue. A victim, a real process, works until it comes to the point; after the fault
a healthy process of the same code does the rest. At the end every turn has ended as it should, the queues and Redis are empty,
and the checker (`tests.proof.checker`), which reads the audit, the rows, the messages and the handler's runs, convicts nothing.

Which awaits: all from the receive to the delete (consumer, processor and what they call), all of a submit (the API's intake),
of a relay's round, and of a redrive with its sweep. In the layers below (batching, database, message_queue) one await serves
many verbs, and is struck in each where the cut means something else: between the statements of a claim, and between those of a
settle. Left out, with the reason in the list, are awaits that are only another name of a point: between a caller's await and
the first await of what it calls there is neither an effect nor an exception handler, so that a fault has the same effect at both.

Production code carries nothing of this. An import hook compiles the product's modules with every await wrapped (`survey.py`),
in the matrix's own processes only. The processes are forked from one that has imported everything (`actors.py`), in
milliseconds; each cell has a database, queues and a Redis prefix of its own, so that many run at a time.
"""
