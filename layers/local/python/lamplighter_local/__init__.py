"""Never in Lambda: the whole system on one machine, with a clock that can be moved."""
