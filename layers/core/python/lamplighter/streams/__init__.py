"""Where shared streams meet Lambda: a batch of a queue as a stream, short sessions for the rest."""
