//! [`ResourceManager`]: what outlives a step — variables, queues, accumulators, tables — by container and name.
//!
//! A device has one manager; all sessions of the task share it. Resources of different kinds may have the same
//! name. Handles are looked up, never dereferenced, so an invented handle is an error and nothing worse.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use tensorfleet_core::memory::Charge;
use tensorfleet_core::{ResourceHandle, Result, Status};

use crate::file_access::FileAccess;

/// Something that lives in a [`ResourceManager`].
pub trait Resource: Any + Send + Sync {
    /// What it is, in a word, for error messages and TensorFlow's type names.
    fn kind() -> &'static str
    where
        Self: Sized;

    /// Called when it is removed from the manager; whoever waits for it must be told.
    fn on_removed(&self) {}

    /// The round of gradients that it collects, if it does.
    fn round(&self) -> Option<RoundReport> {
        None
    }
}

/// A round of gradients that are collected for one update, as `status` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundReport {
    /// The global step that its gradients are computed at.
    pub step: i64,
    /// Gradients that have come.
    pub count: usize,
    /// Gradients that whoever takes them waits for; nothing if nobody waits.
    pub required: Option<usize>,
    /// Whose gradients have come.
    pub given: Vec<Arc<str>>,
    /// Who has given to an earlier round and not to this one.
    pub missing: Vec<Arc<str>>,
    /// Who took the last round.
    pub taker: Option<Arc<str>>,
    /// For how long nothing has changed.
    pub quiet: Duration,
}

type Key = (TypeId, String);

/// Resources by container, kind and name.
pub struct ResourceManager {
    default_container: Cow<'static, str>,
    containers: RwLock<FxHashMap<String, FxHashMap<Key, Entry>>>,
    next_private: AtomicU64,
    epoch: AtomicU64,
    file_access: FileAccess,
}

struct Entry {
    any: Arc<dyn Any + Send + Sync>,
    resource: Arc<dyn Resource>,
    _charge: Charge,
}

/// What a resource takes besides the values in it: itself, its name, its place here. A loop can make one in each iteration.
const RESOURCE_BYTES: usize = 512;

impl ResourceManager {
    /// An empty manager. TensorFlow names the default container after the job.
    pub fn new(default_container: &str) -> ResourceManager {
        ResourceManager::named(Cow::Owned(default_container.to_string()))
    }

    /// An empty manager for what lives as long as one step. Every step makes one, so it takes no memory as long as it is empty.
    pub fn of_step() -> ResourceManager {
        ResourceManager::named(Cow::Borrowed("step"))
    }

    fn named(default_container: Cow<'static, str>) -> ResourceManager {
        ResourceManager {
            default_container,
            containers: RwLock::default(),
            next_private: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            file_access: FileAccess::EVERYWHERE,
        }
    }

    /// The same, with these files for the nodes that use it.
    pub fn with_file_access(self, file_access: FileAccess) -> ResourceManager {
        ResourceManager { file_access, ..self }
    }

    /// The files that nodes on the device may touch.
    pub fn file_access(&self) -> &FileAccess {
        &self.file_access
    }

    /// How often something has been begun anew.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Notes that something is begun anew: steps that have begun before have an earlier epoch than the one it gives.
    pub fn begin_anew(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The container for an op's `container` attribute: the default one if that is empty.
    pub fn container<'a>(&'a self, attr: &'a str) -> &'a str {
        if attr.is_empty() { &self.default_container } else { attr }
    }

    /// A name nobody else uses, for a resource that belongs to one kernel.
    pub fn private_name(&self, node: &str) -> String {
        format!("_{}_{node}", self.next_private.fetch_add(1, Ordering::Relaxed))
    }

    /// The resource a handle names.
    pub fn lookup<R: Resource>(&self, handle: &ResourceHandle) -> Result<Arc<R>> {
        self.get(handle.container(), handle.name()).ok_or_else(|| {
            Status::not_found(format!(
                "Resource {}/{}/{} does not exist.",
                handle.container(),
                handle.name(),
                R::kind()
            ))
        })
    }

    /// The resource of this kind, container and name, if it exists.
    pub fn get<R: Resource>(&self, container: &str, name: &str) -> Option<Arc<R>> {
        let containers = self.containers.read();
        let entry = containers.get(self.container(container))?.get(&key::<R>(name) as &dyn KeyRef)?;
        entry.any.clone().downcast().ok()
    }

    /// The resource of this kind, container and name; made by `create` if it does not exist.
    pub fn get_or_create<R: Resource>(
        &self,
        container: &str,
        name: &str,
        create: impl FnOnce() -> Result<R>,
    ) -> Result<Arc<R>> {
        if let Some(found) = self.get(container, name) {
            return Ok(found);
        }
        let mut containers = self.containers.write();
        let resources = containers.entry(self.container(container).to_string()).or_default();
        if let Some(entry) = resources.get(&key::<R>(name) as &dyn KeyRef) {
            return entry
                .any
                .clone()
                .downcast()
                .map_err(|_| Status::internal("a resource has another type than its key"));
        }
        let charge = Charge::new(RESOURCE_BYTES + size_of::<R>() + name.len())?;
        let resource = Arc::new(create()?);
        let entry = Entry { any: resource.clone(), resource: resource.clone(), _charge: charge };
        resources.insert((TypeId::of::<R>(), name.to_string()), entry);
        Ok(resource)
    }

    /// The rounds of gradients that are collected here, each with the name of its resource.
    pub fn rounds(&self) -> Vec<(String, RoundReport)> {
        let containers = self.containers.read();
        let entries = containers.values().flatten();
        entries.filter_map(|((_, name), entry)| Some((name.clone(), entry.resource.round()?))).collect()
    }

    /// Removes a resource; returns whether it was there.
    pub fn remove<R: Resource>(&self, container: &str, name: &str) -> bool {
        let removed = {
            let mut containers = self.containers.write();
            let resources = containers.get_mut(self.container(container));
            resources.and_then(|resources| resources.remove(&key::<R>(name) as &dyn KeyRef))
        };
        if let Some(entry) = &removed {
            entry.resource.on_removed();
        }
        removed.is_some()
    }

    /// Removes everything in a container; an empty name means the default one.
    pub fn clear(&self, container: &str) {
        let removed = self.containers.write().remove(self.container(container));
        for entry in removed.into_iter().flat_map(FxHashMap::into_values) {
            entry.resource.on_removed();
        }
    }

    /// Removes everything.
    pub fn clear_all(&self) {
        let removed = std::mem::take(&mut *self.containers.write());
        for entry in removed.into_values().flat_map(FxHashMap::into_values) {
            entry.resource.on_removed();
        }
    }
}

/// Lets a map keyed by `(TypeId, String)` be searched with a borrowed name, without an allocation.
trait KeyRef {
    fn parts(&self) -> (TypeId, &str);
}

impl KeyRef for Key {
    fn parts(&self) -> (TypeId, &str) {
        (self.0, &self.1)
    }
}

impl KeyRef for (TypeId, &str) {
    fn parts(&self) -> (TypeId, &str) {
        *self
    }
}

impl std::hash::Hash for dyn KeyRef + '_ {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl PartialEq for dyn KeyRef + '_ {
    fn eq(&self, other: &dyn KeyRef) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn KeyRef + '_ {}

impl<'a> std::borrow::Borrow<dyn KeyRef + 'a> for Key {
    fn borrow(&self) -> &(dyn KeyRef + 'a) {
        self
    }
}

fn key<R: Resource>(name: &str) -> (TypeId, &str) {
    (TypeId::of::<R>(), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counter(u32);
    impl Resource for Counter {
        fn kind() -> &'static str {
            "Counter"
        }
    }

    struct Other;
    impl Resource for Other {
        fn kind() -> &'static str {
            "Other"
        }
    }

    #[test]
    fn resources_are_found_by_container_kind_and_name() {
        let manager = ResourceManager::new("ps");
        manager.get_or_create("", "a", || Ok(Counter(1))).unwrap();
        assert_eq!(manager.get_or_create("ps", "a", || Ok(Counter(2))).unwrap().0, 1);
        assert!(manager.get::<Other>("ps", "a").is_none());
        assert!(manager.get::<Counter>("worker", "a").is_none());
        let handle = ResourceHandle::new("", "ps", "b", "");
        let message = manager.lookup::<Counter>(&handle).map(|_| ()).unwrap_err().message();
        assert_eq!(message, "Resource ps/b/Counter does not exist.");
        manager.clear("worker");
        assert!(manager.get::<Counter>("ps", "a").is_some());
        manager.clear("");
        assert!(manager.get::<Counter>("ps", "a").is_none());
    }
}
