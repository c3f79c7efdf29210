"""How logs of earlier versions are read."""
