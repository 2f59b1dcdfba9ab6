"""Operations: pause, trigger, cancel, retry, clear, mark, repair, push, backfill.

Used by the command line and the local deployment; no Lambda function runs them.
"""
