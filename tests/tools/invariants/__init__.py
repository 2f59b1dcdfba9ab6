"""What must be true of the tables at every moment: one list of promises for all tests."""
