//! [`ResponseStream`]: an answer of several messages, received as they come.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use h2::RecvStream;

use tensorfleet_core::{Result, ensure};

use super::call;
use super::connection::{Connection, PendingCall};
use crate::incoming::{Incoming, MessageReader};

/// The messages of an answer. Dropping it cancels the call.
pub struct ResponseStream {
    pub(super) connection: Arc<Connection>,
    pub(super) method: &'static str,
    pub(super) body: RecvStream,
    pub(super) reader: MessageReader,
    /// Bytes that have arrived and are not read yet.
    pub(super) arrived: Bytes,
    pub(super) _pending: PendingCall,
}

impl ResponseStream {
    /// The next message; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<Incoming>> {
        loop {
            while !self.arrived.is_empty() {
                let taken = self.reader.push_some(&self.arrived, |_| Ok(())).map_err(|status| {
                    status.context(format_args!(
                        "the answer of {} to {}",
                        self.connection.address().text,
                        self.method
                    ))
                })?;
                self.arrived.advance(taken);
                if let Some(message) = self.reader.take() {
                    return message.map(Some);
                }
            }
            match self.body.data().await {
                Some(Ok(chunk)) => {
                    // Fails only on a stream that has ended meanwhile, which the next read reports.
                    let _ = self.body.flow_control().release_capacity(chunk.len());
                    self.arrived = chunk;
                }
                Some(Err(error)) => return Err(self.connection.failure(self.method, &error)),
                None => {
                    call::outcome(&self.connection, self.method, &mut self.body).await?;
                    ensure!(
                        self.reader.is_between_messages(),
                        Internal,
                        "{} ended {} in the middle of a message",
                        self.connection.address().text,
                        self.method
                    );
                    return Ok(None);
                }
            }
        }
    }
}
