"""Layers, losses, metrics and recurrent cells: compositions of ops."""
