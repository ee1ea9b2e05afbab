//! Programs that train on clusters, to read and to start from. Each is one file with all it needs.
//!
//! | program | shows |
//! | --- | --- |
//! | `line_fit` | a graph, gradients, a session in this process |

#[cfg(doctest)]
mod guides;
