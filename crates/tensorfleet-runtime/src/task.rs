//! [`Task`]: what this process contributes — a device, its resources, an identity.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tensorfleet_core::{DeviceName, entropy};
use tensorfleet_kernel::Catalogue;
use tensorfleet_kernel::file_access::FileAccess;
use tensorfleet_kernel::resource::ResourceManager;
use tensorfleet_proto::tensorflow::{DeviceAttributes, DeviceLocality};
use tensorfleet_threads::Threads;

use crate::catalogue;
use crate::shared_constants::SharedConstants;

/// TensorFlow reports this much memory for a CPU; clients only print it.
const REPORTED_MEMORY_BYTES: i64 = 256 << 20;

/// One task: a CPU device with the variables, queues and tables on it. Sessions on the same task share them.
pub struct Task {
    device: DeviceName,
    device_text: Arc<str>,
    incarnation: u64,
    resources: Arc<ResourceManager>,
    catalogue: &'static Catalogue,
    next_step: AtomicI64,
    threads: Arc<Threads>,
    constants: SharedConstants,
}

impl Task {
    /// The task of a process that is in no cluster, on the threads of the process.
    pub fn local() -> Arc<Task> {
        Task::local_on(Threads::of_process().clone())
    }

    /// The same on threads of its own.
    pub fn local_on(threads: Arc<Threads>) -> Arc<Task> {
        Task::new("localhost", 0, FileAccess::EVERYWHERE, threads)
    }

    /// Task `index` of job `job`, with no resources yet, with graphs confined to these files, run by these threads.
    pub fn new(job: &str, index: u32, files: FileAccess, threads: Arc<Threads>) -> Arc<Task> {
        let device = DeviceName::full(job, index, "CPU", 0);
        Arc::new(Task {
            device_text: device.to_string().into(),
            device,
            // 0 means that a task has none.
            incarnation: entropy::nonce().max(1),
            resources: Arc::new(ResourceManager::new(job).with_file_access(files)),
            catalogue: catalogue::linked(),
            next_step: AtomicI64::new(1),
            threads,
            constants: SharedConstants::default(),
        })
    }

    /// The task's device.
    pub fn device(&self) -> &DeviceName {
        &self.device
    }

    /// The device's full name.
    pub fn device_text(&self) -> &Arc<str> {
        &self.device_text
    }

    /// A number that tells this life of the task from earlier ones.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Variables, queues, accumulators, tables.
    pub fn resources(&self) -> &Arc<ResourceManager> {
        &self.resources
    }

    /// The threads its steps run on.
    pub fn threads(&self) -> &Arc<Threads> {
        &self.threads
    }

    /// The constants of graphs that have come here.
    pub fn constants(&self) -> &SharedConstants {
        &self.constants
    }

    /// The ops that graphs may have here.
    pub fn catalogue(&self) -> &'static Catalogue {
        self.catalogue
    }

    /// Empties the named containers, or all if none is named. Unknown names are ignored.
    pub fn reset(&self, containers: &[String]) {
        if containers.is_empty() {
            self.resources.clear_all();
        }
        containers.iter().for_each(|container| self.resources.clear(container));
    }

    /// How the device presents itself to clients.
    pub fn device_attributes(&self) -> DeviceAttributes {
        DeviceAttributes {
            name: self.device_text.to_string(),
            device_type: "CPU".to_string(),
            memory_limit: REPORTED_MEMORY_BYTES,
            locality: Some(DeviceLocality::default()),
            incarnation: self.incarnation,
            ..Default::default()
        }
    }

    pub(crate) fn new_step_id(&self) -> i64 {
        self.next_step.fetch_add(1, Ordering::Relaxed)
    }
}
