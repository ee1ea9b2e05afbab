//! What the library tells people, through `tf.logging`.
//!
//! Any thread may tell something, and may hold locks while it does. So messages go to a thread of their own, which hands them to Python:
//! nobody waits for the interpreter.

use std::fmt::{Debug, Write as _};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// Where notices for people come from; of the rest of the library only warnings are told.
const NOTICES: &str = "tensorfleet_core::notice";

static TOLD: OnceLock<Sender<Told>> = OnceLock::new();

/// How long the end of a program waits for what was told last.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

enum Told {
    /// A text, and whether it is a warning.
    Text(bool, String),
    /// Somebody waits until all before this was told.
    Flush(Sender<()>),
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(flush_notices, module)?)?;
    let exit = module.py().import("atexit")?;
    exit.call_method1("register", (module.getattr("flush_notices")?,)).map(drop)
}

/// Waits until everything that the library has told so far has reached Python.
#[pyfunction]
fn flush_notices(py: Python<'_>) {
    let (sender, receiver) = channel();
    if TOLD.get().is_some_and(|told| told.send(Told::Flush(sender)).is_ok()) {
        let _ = py.detach(move || receiver.recv_timeout(FLUSH_TIMEOUT));
    }
}

/// Sends what the library tells to Python, unless the program has set up a log of its own.
pub(crate) fn install() {
    if tracing::subscriber::set_global_default(Teller).is_err() {
        return;
    }
    let (sender, receiver) = channel();
    #[expect(clippy::disallowed_methods, reason = "it ends with the process, and holds nothing")]
    let started = std::thread::Builder::new().name("notices".to_string()).spawn(move || tell(&receiver));
    if started.is_ok() {
        let _ = TOLD.set(sender);
    }
}

fn tell(receiver: &Receiver<Told>) {
    while let Ok(told) = receiver.recv() {
        let (is_warning, text) = match told {
            Told::Text(is_warning, text) => (is_warning, text),
            Told::Flush(waits) => {
                let _ = waits.send(());
                continue;
            }
        };
        // An interpreter that is ending has nobody to tell.
        let told = Python::try_attach(|py| {
            let logging = py.import("tensorfleet.platform.notices")?;
            logging.call_method1("tell", (is_warning, text)).map(drop)
        });
        if let Some(Err(error)) = told {
            Python::try_attach(|py| error.print(py));
        }
    }
}

struct Teller;

impl Teller {
    fn is_wanted(metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN || (*metadata.level() == Level::INFO && metadata.target() == NOTICES)
    }
}

/// The text of an event, with its fields behind it.
#[derive(Default)]
struct Text(String, String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.1, " {name}={value:?}"),
        };
    }
}

impl Subscriber for Teller {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if Teller::is_wanted(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        Teller::is_wanted(metadata)
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::INFO)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        if let Some(sender) = TOLD.get() {
            let _ = sender.send(Told::Text(*event.metadata().level() <= Level::WARN, text.0 + &text.1));
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
