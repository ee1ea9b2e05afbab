//! [`PlanCache`]: the plans of a session, by what they were made for.
//!
//! A look-up takes the names as the caller has them and allocates nothing. The cache is bounded, by the number of plans and
//! by what they take: when it is full those that were used least recently are forgotten, and made again if they are still
//! wanted. Whoever holds a plan keeps it.
//!
//! How recently a plan was used is told by the number of plans that have been added since. That changes only when one is
//! added, so the steps of a training that has all its plans write nothing here.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hashbrown::HashTable;
use parking_lot::RwLock;
use rustc_hash::FxHasher;
use tensorfleet_core::Graph;
use tensorfleet_proto::tensorflow::attr_value::Value;

use crate::plan::Signature;

/// A node of a plan takes about so much, with its kernel, edges and place in a graph: measured for graphs of ten thousand
/// nodes.
const NODE_BYTES: usize = 1 << 10;
/// Constants up to this size may be the plan's own, made by folding; larger ones are the session's.
const OWN_CONSTANT_BYTES: usize = 64 << 10;

/// How much a cache may hold.
#[derive(Clone, Copy, Debug)]
pub struct PlanBounds {
    /// Plans at most.
    pub plans: usize,
    /// Bytes that they may take together.
    pub bytes: usize,
    /// So many stay, whatever they take: a training that has a few signatures over a huge graph must not plan each step.
    pub at_least: usize,
}

/// Plans by signature.
pub struct PlanCache<P> {
    plans: RwLock<Plans<P>>,
    bounds: PlanBounds,
}

struct Plans<P> {
    table: HashTable<Entry<P>>,
    bytes: usize,
    /// How many have been added.
    added: u64,
}

struct Entry<P> {
    signature: Signature,
    plan: Arc<P>,
    bytes: usize,
    /// How many plans had been added when it was last used.
    used: AtomicU64,
}

impl<P> Entry<P> {
    fn is_for(&self, feeds: &[&str], fetches: &[&str], targets: &[&str]) -> bool {
        let Signature { feeds: f, fetches: g, targets: t } = &self.signature;
        f == feeds && g == fetches && t == targets
    }

    fn hash(&self) -> u64 {
        let Signature { feeds, fetches, targets } = &self.signature;
        hash_of(feeds, fetches, targets)
    }
}

impl<P> PlanCache<P> {
    /// An empty cache.
    pub fn new(bounds: PlanBounds) -> PlanCache<P> {
        PlanCache { plans: RwLock::new(Plans { table: HashTable::new(), bytes: 0, added: 0 }), bounds }
    }

    /// The plan for this signature, if it is here.
    pub fn find(&self, feeds: &[&str], fetches: &[&str], targets: &[&str]) -> Option<Arc<P>> {
        let hash = hash_of(feeds, fetches, targets);
        let plans = self.plans.read();
        let entry = plans.table.find(hash, |entry| entry.is_for(feeds, fetches, targets))?;
        if entry.used.load(Relaxed) != plans.added {
            entry.used.store(plans.added, Relaxed);
        }
        Some(entry.plan.clone())
    }

    /// Keeps a plan that takes about `bytes`. If there is one for this signature already, that one stays. Returns the one
    /// that is kept.
    pub fn insert(&self, signature: Signature, plan: Arc<P>, bytes: usize) -> Arc<P> {
        let hash = hash_of(&signature.feeds, &signature.fetches, &signature.targets);
        let mut plans = self.plans.write();
        if let Some(known) = plans.table.find(hash, |entry| entry.signature == signature) {
            return known.plan.clone();
        }
        let evicted = plans.make_room(bytes, &self.bounds);
        plans.added += 1;
        plans.bytes += bytes;
        let used = AtomicU64::new(plans.added);
        plans.table.insert_unique(hash, Entry { signature, plan: plan.clone(), bytes, used }, Entry::hash);
        drop(plans);
        // A plan may have tasks to tell that it is gone, so not under the lock.
        drop(evicted);
        plan
    }

    /// The number of plans.
    pub fn len(&self) -> usize {
        self.plans.read().table.len()
    }

    /// Whether there is no plan.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all plans.
    pub fn clear(&self) {
        let evicted = {
            let mut plans = self.plans.write();
            plans.bytes = 0;
            std::mem::take(&mut plans.table)
        };
        drop(evicted);
    }
}

impl<P> Plans<P> {
    /// Takes out what was used least recently, until there is room for one of `bytes` more.
    fn make_room(&mut self, bytes: usize, bounds: &PlanBounds) -> Vec<Entry<P>> {
        let is_full = |plans: &Plans<P>, count: usize, more: usize| {
            count >= bounds.plans
                || (count >= bounds.at_least && plans.bytes.saturating_add(more) > bounds.bytes)
        };
        if !is_full(self, self.table.len(), bytes) {
            return Vec::new();
        }
        // Some more than needed, so that a client that never repeats a signature does not look at all plans each time.
        let spare = self.table.len() / 16;
        let mut ages: Vec<(u64, u64)> =
            self.table.iter().map(|entry| (entry.used.load(Relaxed), entry.hash())).collect();
        ages.sort_unstable();
        let mut evicted = Vec::new();
        for (count, (used, hash)) in ages.into_iter().enumerate() {
            let is_needed = is_full(self, self.table.len(), bytes);
            if !is_needed && count >= spare {
                break;
            }
            let oldest =
                self.table.find_entry(hash, |entry| entry.used.load(Relaxed) == used && entry.hash() == hash);
            let Ok(oldest) = oldest else { continue };
            let (entry, _) = oldest.remove();
            self.bytes -= entry.bytes;
            evicted.push(entry);
        }
        evicted
    }
}

/// About how much the plan takes whose partitions these are: what its tasks keep of it, and nobody else.
pub fn plan_bytes<'a>(graphs: impl Iterator<Item = &'a Graph>) -> usize {
    let own = |graph: &Graph| {
        let attrs = graph.nodes().iter().flat_map(|node| node.attrs.values());
        let constants = attrs.filter_map(|attr| match &attr.value {
            Some(Value::Tensor(tensor)) => Some(tensor.tensor_content.len()),
            _ => None,
        });
        constants.filter(|&bytes| bytes <= OWN_CONSTANT_BYTES).sum::<usize>() + graph.len() * NODE_BYTES
    };
    graphs.map(own).sum()
}

/// Names hash alike, owned or borrowed.
fn hash_of<S: AsRef<str>>(feeds: &[S], fetches: &[S], targets: &[S]) -> u64 {
    let mut hasher = FxHasher::default();
    for names in [feeds, fetches, targets] {
        names.len().hash(&mut hasher);
        names.iter().for_each(|name| name.as_ref().hash(&mut hasher));
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn few(plans: usize) -> PlanBounds {
        PlanBounds { plans, bytes: usize::MAX, at_least: 1 }
    }

    fn signature(number: usize) -> Signature {
        Signature::new(&[], &[&number.to_string()], &[])
    }

    fn is_there(cache: &PlanCache<usize>, number: usize) -> bool {
        cache.find(&[], &[&number.to_string()], &[]).is_some()
    }

    #[test]
    fn what_was_used_least_recently_is_forgotten_first() {
        let cache = PlanCache::new(few(8));
        for number in 0..1000 {
            cache.insert(signature(number), Arc::new(number), 1);
            // These two are used all the time, the others never again.
            assert!(is_there(&cache, 0) && (number == 0 || is_there(&cache, 1)), "forgotten at {number}");
        }
        assert!(is_there(&cache, 999) && is_there(&cache, 998) && !is_there(&cache, 2));
    }

    #[test]
    fn large_plans_are_forgotten_sooner_but_a_few_stay_whatever_they_take() {
        let bounds = PlanBounds { plans: 100, bytes: 1000, at_least: 3 };
        let cache = PlanCache::new(bounds);
        (0..50).for_each(|number| drop(cache.insert(signature(number), Arc::new(number), 100)));
        assert_eq!(cache.len(), 10);
        (50..100).for_each(|number| drop(cache.insert(signature(number), Arc::new(number), 100_000)));
        assert_eq!(cache.len(), 3);
        assert!((97..100).all(|number| is_there(&cache, number)));
        cache.clear();
        cache.insert(signature(0), Arc::new(0), 100);
        assert_eq!((cache.len(), cache.plans.read().bytes), (1, 100));
    }

    #[test]
    fn a_plan_is_found_by_all_three_parts_of_its_signature_in_order() {
        let cache = PlanCache::new(few(8));
        let cases: [[&[&str]; 3]; 5] = [
            [&["a"], &["b"], &[]],
            [&["a"], &[], &["b"]],
            [&[], &["a", "b"], &[]],
            [&[], &["b", "a"], &[]],
            [&[], &["ab"], &[]],
        ];
        for (number, [feeds, fetches, targets]) in cases.into_iter().enumerate() {
            assert!(cache.find(feeds, fetches, targets).is_none());
            cache.insert(Signature::new(feeds, fetches, targets), Arc::new(number), 1);
        }
        for (number, [feeds, fetches, targets]) in cases.into_iter().enumerate() {
            assert_eq!(cache.find(feeds, fetches, targets).as_deref(), Some(&number));
        }
    }

    #[test]
    fn the_first_plan_of_a_signature_stays() {
        let cache = PlanCache::new(few(8));
        let first = cache.insert(Signature::new(&[], &["a"], &[]), Arc::new(1), 1);
        let second = cache.insert(Signature::new(&[], &["a"], &[]), Arc::new(2), 1);
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn a_client_that_never_repeats_a_signature_does_not_fill_memory() {
        let cache = PlanCache::new(few(16));
        let held = cache.insert(Signature::new(&[], &["0"], &[]), Arc::new(0), 1);
        let evicted = Arc::downgrade(&cache.insert(Signature::new(&[], &["1"], &[]), Arc::new(1), 1));
        for number in 2..1000 {
            cache.insert(Signature::new(&[], &[&number.to_string()], &[]), Arc::new(number), 1);
            assert!(cache.len() <= 16);
        }
        assert_eq!(*held, 0, "who holds a plan keeps it");
        assert!(evicted.upgrade().is_none(), "nobody holds it any more");
        cache.clear();
        assert!(cache.is_empty());
    }
}
