//! Collections: outputs that a graph remembers under a key.

use std::collections::BTreeMap;

use tensorfleet_core::{Endpoint, Result};

use super::graph::Graph;
use super::output::Output;

/// What [`Graph::add_to_collection`] gathers, by key.
#[derive(Default)]
struct Collections(BTreeMap<String, Vec<Endpoint>>);

impl Graph {
    /// Adds an output to the collection called `key`, such as `summaries` or `losses`: where one part of a program
    /// leaves what another will look for.
    ///
    /// ```
    /// # use tensorfleet::Graph;
    /// let g = Graph::new();
    /// g.add_to_collection("losses", &g.constant(1.0f32))?;
    /// assert_eq!(g.collection("losses")[0].name(), "Const:0");
    /// assert!(g.collection("summaries").is_empty());
    /// # Ok::<(), tensorfleet::Status>(())
    /// ```
    pub fn add_to_collection(&self, key: &str, output: &Output) -> Result<()> {
        let endpoint = output.endpoint_in(self)?;
        self.registry(|Collections(lists)| lists.entry(key.to_string()).or_default().push(endpoint));
        Ok(())
    }

    /// The outputs of a collection, in the order they were added.
    pub fn collection(&self, key: &str) -> Vec<Output> {
        let endpoints = self.registry(|Collections(lists)| lists.get(key).cloned()).unwrap_or_default();
        endpoints.into_iter().map(|endpoint| self.output_at(endpoint)).collect()
    }
}
