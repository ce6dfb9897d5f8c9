"""Files that were damaged on purpose, and the reader that must survive them."""
