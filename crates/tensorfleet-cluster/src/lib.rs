//! A cluster: its specification, its servers with their master and worker services, and clients of them.

mod cluster_spec;
