//! Running graphs: sessions in this process and on a server, what they are asked for and what they report.

mod backend;
mod fetch;
mod partial_run;
#[expect(clippy::module_inception, reason = "the file of the type that the folder is about")]
mod session;
mod session_options;
mod timeline;

pub use fetch::{Fetch, Request, Results};
pub use partial_run::{EndpointsPartialRun, PartialRun, PartialStep};
pub use session::{PreparedRun, Session, Step};
pub use session_options::SessionOptions;
pub use timeline::Timeline;
