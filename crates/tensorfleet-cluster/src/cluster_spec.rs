//! [`ClusterSpec`]: which tasks a cluster has, and where they listen.
