"""Asset events: recorded once, and handed on to who waits for them."""
