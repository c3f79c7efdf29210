"""The problem: instances, reward families, risks, random draws and outcomes."""
