//! What a failed file operation is in TensorFlow's codes.

use std::io;
use std::path::Path;

use tensorfleet_core::{Code, Status, excerpt};

/// The status for a failed file operation, with TensorFlow's code for it.
pub fn io_status(path: &Path, error: &io::Error) -> Status {
    use io::ErrorKind::*;
    let code = match error.kind() {
        NotFound => Code::NotFound,
        PermissionDenied | ReadOnlyFilesystem => Code::PermissionDenied,
        AlreadyExists => Code::AlreadyExists,
        IsADirectory | NotADirectory | DirectoryNotEmpty => Code::FailedPrecondition,
        UnexpectedEof => Code::OutOfRange,
        InvalidInput | InvalidFilename => Code::InvalidArgument,
        StorageFull | FileTooLarge | QuotaExceeded | OutOfMemory => Code::ResourceExhausted,
        InvalidData => Code::DataLoss,
        Unsupported => Code::Unimplemented,
        _ => Code::Unknown,
    };
    Status::new(code, format!("{}; {error}", excerpt(path.as_os_str().as_encoded_bytes())))
}
