"""The benchmark's driver: starts servers, loads them, reads what they cost. Standard library only."""
