//! [`PlanCache`]: the plans of a session, by what they were made for.
//!
//! A look-up takes the names as the caller has them and allocates nothing. The cache is bounded: when it is full all plans
//! are forgotten, and those that are still wanted are made again. Whoever holds a plan keeps it.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;
use parking_lot::RwLock;
use rustc_hash::FxHasher;

use crate::plan::Signature;

/// Plans by signature, at most a certain number.
pub struct PlanCache<P> {
    plans: RwLock<HashTable<Entry<P>>>,
    capacity: usize,
}

struct Entry<P> {
    signature: Signature,
    plan: Arc<P>,
}

impl<P> Entry<P> {
    fn is_for(&self, feeds: &[&str], fetches: &[&str], targets: &[&str]) -> bool {
        let Signature { feeds: f, fetches: g, targets: t } = &self.signature;
        f == feeds && g == fetches && t == targets
    }
}

impl<P> PlanCache<P> {
    /// An empty cache with room for `capacity` plans.
    pub fn new(capacity: usize) -> PlanCache<P> {
        PlanCache { plans: RwLock::new(HashTable::new()), capacity }
    }

    /// The plan for this signature, if it is here.
    pub fn find(&self, feeds: &[&str], fetches: &[&str], targets: &[&str]) -> Option<Arc<P>> {
        let hash = hash_of(feeds, fetches, targets);
        let plans = self.plans.read();
        plans.find(hash, |entry| entry.is_for(feeds, fetches, targets)).map(|entry| entry.plan.clone())
    }

    /// Keeps a plan. If there is one for this signature already, that one stays. Returns the one that is kept.
    pub fn insert(&self, signature: Signature, plan: Arc<P>) -> Arc<P> {
        let hash = hash_of(&signature.feeds, &signature.fetches, &signature.targets);
        let mut plans = self.plans.write();
        if let Some(known) = plans.find(hash, |entry| entry.signature == signature) {
            return known.plan.clone();
        }
        let evicted = (plans.len() >= self.capacity).then(|| std::mem::take(&mut *plans));
        plans.insert_unique(hash, Entry { signature, plan: plan.clone() }, |entry| {
            let Signature { feeds, fetches, targets } = &entry.signature;
            hash_of(feeds, fetches, targets)
        });
        drop(plans);
        // A plan may have tasks to tell that it is gone, so not under the lock.
        drop(evicted);
        plan
    }

    /// The number of plans.
    pub fn len(&self) -> usize {
        self.plans.read().len()
    }

    /// Whether there is no plan.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all plans.
    pub fn clear(&self) {
        let evicted = std::mem::take(&mut *self.plans.write());
        drop(evicted);
    }
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

    #[test]
    fn a_plan_is_found_by_all_three_parts_of_its_signature_in_order() {
        let cache = PlanCache::new(8);
        let cases: [[&[&str]; 3]; 5] = [
            [&["a"], &["b"], &[]],
            [&["a"], &[], &["b"]],
            [&[], &["a", "b"], &[]],
            [&[], &["b", "a"], &[]],
            [&[], &["ab"], &[]],
        ];
        for (number, [feeds, fetches, targets]) in cases.into_iter().enumerate() {
            assert!(cache.find(feeds, fetches, targets).is_none());
            cache.insert(Signature::new(feeds, fetches, targets), Arc::new(number));
        }
        for (number, [feeds, fetches, targets]) in cases.into_iter().enumerate() {
            assert_eq!(cache.find(feeds, fetches, targets).as_deref(), Some(&number));
        }
    }

    #[test]
    fn the_first_plan_of_a_signature_stays() {
        let cache = PlanCache::new(8);
        let first = cache.insert(Signature::new(&[], &["a"], &[]), Arc::new(1));
        let second = cache.insert(Signature::new(&[], &["a"], &[]), Arc::new(2));
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn a_client_that_never_repeats_a_signature_does_not_fill_memory() {
        let cache = PlanCache::new(16);
        let held = cache.insert(Signature::new(&[], &["0"], &[]), Arc::new(0));
        let evicted = Arc::downgrade(&cache.insert(Signature::new(&[], &["1"], &[]), Arc::new(1)));
        for number in 2..1000 {
            cache.insert(Signature::new(&[], &[&number.to_string()], &[]), Arc::new(number));
            assert!(cache.len() <= 16);
        }
        assert_eq!(*held, 0, "who holds a plan keeps it");
        assert!(evicted.upgrade().is_none(), "nobody holds it any more");
        cache.clear();
        assert!(cache.is_empty());
    }
}
