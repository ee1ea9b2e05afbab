//! Stories about the engine.
