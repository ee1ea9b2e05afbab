"""Functions that add ops to a graph."""
