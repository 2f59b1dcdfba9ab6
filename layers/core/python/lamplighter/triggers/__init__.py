"""Triggers: how an outside source tells that an asset has changed."""
