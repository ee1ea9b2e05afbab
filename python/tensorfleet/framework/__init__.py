"""Graphs under construction and what they are made of."""
