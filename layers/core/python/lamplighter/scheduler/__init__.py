"""The scheduler: finds what is due, claims it once, and looks ahead."""
