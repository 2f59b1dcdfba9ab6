"""What an operator asks for: pause, trigger, cancel, retry, clear, mark, repair, push, backfill.

Lambda runs none of it by itself; the command line and the local deployment do.
"""
