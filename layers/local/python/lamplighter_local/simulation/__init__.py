"""The coming days of a bundle, and a picture of them."""
