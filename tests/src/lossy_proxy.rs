//! A proxy between two tasks that loses answers: what the client sends arrives, what the server answers does not.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A proxy; its connections end with it.
pub struct LossyProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    loses_answers: AtomicBool,
    lost_bytes: AtomicU64,
    is_over: AtomicBool,
    connections: Mutex<Vec<TcpStream>>,
}

impl LossyProxy {
    /// Listens on `address` and passes on what comes to and from `server`.
    pub fn start(address: SocketAddr, server: SocketAddr) -> std::io::Result<LossyProxy> {
        let listener = TcpListener::bind(address)?;
        let shared: Arc<Shared> = Arc::default();
        let accepting = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.is_over.load(Ordering::SeqCst) {
                    return;
                }
                // A server that is not there yet refuses; so does the proxy.
                if let Ok(server) = TcpStream::connect(server) {
                    accepting.connect(client, server);
                }
            }
        });
        Ok(LossyProxy { address, shared })
    }

    /// From now on answers are lost.
    pub fn lose_answers(&self) {
        self.shared.loses_answers.store(true, Ordering::SeqCst);
    }

    /// How many bytes of answers have been lost.
    pub fn lost_bytes(&self) -> u64 {
        self.shared.lost_bytes.load(Ordering::SeqCst)
    }

    /// Breaks all connections; those made from now on lose nothing.
    pub fn break_connections(&self) {
        for connection in std::mem::take(&mut *self.shared.connections()) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        self.shared.loses_answers.store(false, Ordering::SeqCst);
    }
}

impl Drop for LossyProxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.break_connections();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn connections(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.connections.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn connect(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let pairs = (client.try_clone(), server.try_clone());
        let (Ok(client_again), Ok(server_again)) = pairs else { return };
        let kept = (client.try_clone(), server.try_clone());
        if let (Ok(client), Ok(server)) = kept {
            self.connections().extend([client, server]);
        }
        let shared = self.clone();
        thread::spawn(move || pass_on(client, server, |_| true));
        thread::spawn(move || {
            pass_on(server_again, client_again, |bytes| {
                let loses = shared.loses_answers.load(Ordering::SeqCst);
                if loses {
                    shared.lost_bytes.fetch_add(bytes as u64, Ordering::SeqCst);
                }
                !loses
            });
        });
    }
}

/// Passes bytes on, those that `arrive` says yes to, until one side ends.
fn pass_on(mut from: TcpStream, mut to: TcpStream, mut arrive: impl FnMut(usize) -> bool) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 || (arrive(count) && to.write_all(&buffer[..count]).is_err()) {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
