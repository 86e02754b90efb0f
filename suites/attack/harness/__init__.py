"""Starts servers, speaks to them in good and bad ways, and judges what they did. The attacks are in `cases`."""
