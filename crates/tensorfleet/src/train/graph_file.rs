//! Writes a graph for people and tools: `graph.pbtxt`.
