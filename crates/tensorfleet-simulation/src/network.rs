//! [`Net`]: the network between simulated hosts, as TCP shows it to programs.
//!
//! A connection is two pipes. What is written into one comes out of it in order, some time later: after the link's latency,
//! later still if a packet was lost and had to be sent again, and not at all while the link is cut. Then it stays with the
//! sender's system, which tries again, and gives the connection up after [`GIVE_UP`], as our sockets are set to. A process
//! that is killed resets its connections; a machine that loses power says nothing, and resets what reaches it when it is
//! back. A process that is stopped still has a system that takes connections and bytes for it.
//!
//! Nothing here knows what the bytes mean.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tensorfleet_rpc::{Arrivals, ByteStream, Network};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::machine::{self, Random};

/// How long bytes may go unacknowledged, and a silent peer's system unanswered: `socket_options.rs` of the transport.
const GIVE_UP: Duration = Duration::from_secs(35);
/// How long a system leaves a silent connection alone before it asks whether the other end still knows of it.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// What a pipe holds before its writer must wait.
const PIPE_BYTES: usize = 256 << 10;
/// Within a machine everything is quick.
const LOOPBACK: Duration = Duration::from_micros(50);
/// How long a system waits before it sends again what was lost; and, after a cut has been mended, until it tries.
const SEND_AGAIN_MS: (u64, u64) = (200, 900);

/// A simulated host's number.
pub(crate) type HostId = usize;

/// How a network behaves when nothing is wrong with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// The least and the longest time that bytes take.
    pub(crate) latency: (Duration, Duration),
    /// How many of a thousand writes are lost and sent again.
    pub(crate) lost_permille: u64,
}

/// The network. Clones are the same network.
#[derive(Clone)]
pub(crate) struct Net(Arc<Mutex<State>>);

struct State {
    random: Random,
    weather: Weather,
    hosts: Vec<HostState>,
    cuts: BTreeSet<(HostId, HostId)>,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    dials: Vec<Dial>,
    /// Whether something was sent since this was last asked.
    is_busy: bool,
    /// Whom to wake once the network is no longer locked.
    woken: Vec<Waker>,
    /// Connections to hand out then.
    made: Vec<Made>,
}

/// Where connections to a port go.
type Listener = UnboundedSender<(Box<dyn ByteStream>, SocketAddr)>;

/// A connection that has just been made.
struct Made {
    id: u64,
    from: SocketAddr,
    listener: Listener,
    answer: oneshot::Sender<io::Result<Box<dyn ByteStream>>>,
}

struct HostState {
    name: String,
    has_power: bool,
    /// Counts its processes: those of an earlier one are strangers to a later one.
    life: u64,
    listeners: BTreeMap<u16, Listener>,
    /// How much longer than usual everything to and from it takes.
    slowness: u32,
}

struct Connection {
    hosts: [HostId; 2],
    lives: [u64; 2],
    /// The first carries what the first host writes.
    pipes: [Pipe; 2],
    /// Since when nothing gets through.
    stuck_since: Option<Duration>,
    /// Since when one of its processes is gone and its host could say so.
    stale_since: Option<Duration>,
}

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    in_flight: VecDeque<(Duration, Segment)>,
    readable: VecDeque<Bytes>,
    held_bytes: usize,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// How it ended, for its reader.
    end: Option<End>,
    /// Whether its writer has said that nothing follows.
    is_closed: bool,
    /// Whether nobody reads from it any more.
    has_no_reader: bool,
    /// Whether its writer has been told that nobody reads.
    is_broken: bool,
}

enum Segment {
    Bytes(Bytes),
    End(End),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Reset,
}

struct Dial {
    from: HostId,
    life: u64,
    to: HostId,
    port: u16,
    at: Duration,
    answer: oneshot::Sender<io::Result<Box<dyn ByteStream>>>,
}

impl Pipe {
    /// What arrives next, if it is due.
    fn due(&mut self, now: Duration) -> Option<(Duration, Segment)> {
        let is_due = self.in_flight.front().is_some_and(|(at, _)| *at <= now);
        is_due.then(|| self.in_flight.pop_front()).flatten()
    }

    /// Ends it for its reader, and if it is reset for its writer, too; gives whom to wake.
    fn finish(&mut self, end: End) -> impl Iterator<Item = Waker> + use<> {
        self.end.get_or_insert(end);
        if end == End::Reset {
            self.in_flight.clear();
            self.is_broken = true;
        }
        self.reader.take().into_iter().chain(self.writer.take())
    }
}

impl State {
    fn latency(&mut self, from: HostId, to: HostId) -> Duration {
        if from == to {
            return LOOPBACK;
        }
        let (least, most) = self.weather.latency;
        let micros = self.random.between(least.as_micros() as u64, most.as_micros() as u64);
        let slowness = self.hosts[from].slowness.max(self.hosts[to].slowness);
        let latency = Duration::from_micros(micros) * slowness;
        match self.random.permille(self.weather.lost_permille) {
            true => latency + self.random.millis(SEND_AGAIN_MS.0, SEND_AGAIN_MS.1),
            false => latency,
        }
    }

    fn is_cut(&self, a: HostId, b: HostId) -> bool {
        self.cuts.contains(&(a.min(b), a.max(b)))
    }

    fn host_named(&self, name: &str) -> Option<HostId> {
        self.hosts.iter().position(|host| host.name == name)
    }

    /// Puts something into a pipe, to come out after all that is in it.
    fn send(&mut self, connection: u64, end: usize, segment: Segment) {
        let Some(hosts) = self.connections.get(&connection).map(|connection| connection.hosts) else {
            return;
        };
        let latency = self.latency(hosts[end], hosts[1 - end]);
        let Some(connection) = self.connections.get_mut(&connection) else { return };
        let pipe = &mut connection.pipes[end];
        let after = pipe.in_flight.back().map_or(Duration::ZERO, |(at, _)| *at);
        if let Segment::Bytes(bytes) = &segment {
            pipe.held_bytes += bytes.len();
        }
        pipe.in_flight.push_back((after.max(machine::now() + latency), segment));
        self.is_busy = true;
    }

    /// Lets everything arrive that is due.
    fn deliver(&mut self, now: Duration) {
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        for id in ids {
            self.deliver_on(id, now);
        }
        self.connections.retain(|_, connection| {
            let is_over = |pipe: &Pipe| pipe.has_no_reader && (pipe.is_closed || pipe.is_broken);
            !connection.pipes.iter().all(is_over)
        });
        for dial in std::mem::take(&mut self.dials) {
            self.answer(dial, now);
        }
    }

    fn deliver_on(&mut self, id: u64, now: Duration) {
        let Some(connection) = self.connections.get(&id) else { return };
        let [a, b] = connection.hosts;
        let is_stuck = self.is_cut(a, b) || !self.hosts[a].has_power || !self.hosts[b].has_power;
        let lives = [self.hosts[a].life, self.hosts[b].life];
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if is_stuck {
            let since = *connection.stuck_since.get_or_insert(now);
            if now - since >= GIVE_UP {
                self.woken.extend(connection.pipes.iter_mut().flat_map(|pipe| pipe.finish(End::Reset)));
            }
            return;
        }
        if connection.stuck_since.take().is_some() {
            let pause = self.random.millis(SEND_AGAIN_MS.0, SEND_AGAIN_MS.1);
            for (at, _) in connection.pipes.iter_mut().flat_map(|pipe| &mut pipe.in_flight) {
                *at = (*at).max(now + pause);
            }
        }
        if lives != connection.lives && now - *connection.stale_since.get_or_insert(now) >= KEEP_ALIVE {
            self.woken.extend(connection.pipes.iter_mut().flat_map(|pipe| pipe.finish(End::Reset)));
        }
        for end in 0..2 {
            let reader_is_gone = lives[1 - end] != connection.lives[1 - end];
            let pipe = &mut connection.pipes[end];
            while let Some((_, segment)) = pipe.due(now) {
                match segment {
                    Segment::End(end) => self.woken.extend(pipe.finish(end)),
                    // Whoever it was meant for is not there: the system says so.
                    Segment::Bytes(_) if reader_is_gone || pipe.has_no_reader => {
                        let pipes = connection.pipes.iter_mut();
                        self.woken.extend(pipes.flat_map(|pipe| pipe.finish(End::Reset)));
                        break;
                    }
                    Segment::Bytes(bytes) => {
                        pipe.readable.push_back(bytes);
                        self.woken.extend(pipe.reader.take());
                    }
                }
            }
        }
    }

    fn answer(&mut self, mut dial: Dial, now: Duration) {
        let is_stuck = self.is_cut(dial.from, dial.to) || !self.hosts[dial.to].has_power;
        if dial.answer.is_closed() || self.hosts[dial.from].life != dial.life {
            return;
        }
        if dial.at > now || is_stuck {
            if is_stuck {
                dial.at = dial.at.max(now + Duration::from_millis(SEND_AGAIN_MS.1));
            }
            return self.dials.push(dial);
        }
        let listener = self.hosts[dial.to].listeners.get(&dial.port);
        let Some(listener) = listener.filter(|listener| !listener.is_closed()).cloned() else {
            let _ = dial.answer.send(Err(io::ErrorKind::ConnectionRefused.into()));
            return;
        };
        let id = self.next_connection;
        self.next_connection += 1;
        let connection = Connection {
            hosts: [dial.from, dial.to],
            lives: [dial.life, self.hosts[dial.to].life],
            pipes: Default::default(),
            stuck_since: None,
            stale_since: None,
        };
        self.connections.insert(id, connection);
        self.is_busy = true;
        let address = SocketAddr::new(address_of(dial.from), 40_000 + (id % 20_000) as u16);
        self.made.push(Made { id, from: address, listener, answer: dial.answer });
    }

    /// Says that nothing follows, once.
    fn close(&mut self, id: u64, end: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !std::mem::replace(&mut connection.pipes[end].is_closed, true) {
            self.send(id, end, Segment::End(End::Closed));
        }
    }

    /// A process is no more. What it had open is reset, or, if the machine is gone with it, forgotten.
    fn end_process(&mut self, host: HostId, is_reset: bool) {
        self.hosts[host].life += 1;
        self.hosts[host].listeners.clear();
        let ends: Vec<(u64, usize)> = (self.connections.iter())
            .flat_map(|(&id, connection)| (0..2).map(move |end| (id, connection.hosts[end], end)))
            .filter_map(|(id, at, end)| (at == host).then_some((id, end)))
            .collect();
        for (id, end) in ends {
            if is_reset {
                self.send(id, end, Segment::End(End::Reset));
            }
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.pipes[1 - end].has_no_reader = true;
            connection.pipes[end].is_closed = true;
        }
    }
}

impl Net {
    /// A network between hosts of these names.
    pub(crate) fn new(names: &[String], weather: Weather, random: Random) -> Net {
        let host = |name: &String| HostState {
            name: name.clone(),
            has_power: true,
            life: 0,
            listeners: BTreeMap::new(),
            slowness: 1,
        };
        Net(Arc::new(Mutex::new(State {
            random,
            weather,
            hosts: names.iter().map(host).collect(),
            cuts: BTreeSet::new(),
            connections: BTreeMap::new(),
            next_connection: 0,
            dials: Vec::new(),
            is_busy: false,
            woken: Vec::new(),
            made: Vec::new(),
        })))
    }

    /// Does something to the network, and then what must be done without holding it.
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let (result, woken, made) = {
            let mut state = self.0.lock();
            let result = change(&mut state);
            (result, std::mem::take(&mut state.woken), std::mem::take(&mut state.made))
        };
        woken.into_iter().for_each(Waker::wake);
        for Made { id, from, listener, answer } in made {
            let stream = |end| Box::new(Stream { net: self.clone(), connection: id, end });
            // Whoever is gone drops the stream, which closes it.
            let _ = listener.send((stream(1), from));
            let _ = answer.send(Ok(stream(0)));
        }
        result
    }

    /// How `host` sees the network.
    pub(crate) fn seen_from(&self, host: HostId) -> Arc<dyn Network> {
        Arc::new(Seen { net: self.clone(), host })
    }

    /// Lets everything arrive that is due by now.
    pub(crate) fn deliver(&self) {
        self.change(|state| state.deliver(machine::now()));
    }

    /// When something arrives next, as far as is known.
    pub(crate) fn next_arrival(&self) -> Option<Duration> {
        let state = self.0.lock();
        let pipes = state.connections.values().filter(|connection| connection.stuck_since.is_none());
        let segments =
            pipes.flat_map(|connection| &connection.pipes).filter_map(|pipe| pipe.in_flight.front());
        segments.map(|(at, _)| *at).chain(state.dials.iter().map(|dial| dial.at)).min()
    }

    /// Whether something was sent since this was last asked.
    pub(crate) fn was_busy(&self) -> bool {
        std::mem::take(&mut self.0.lock().is_busy)
    }

    /// Cuts or mends the link between two hosts.
    pub(crate) fn set_cut(&self, a: HostId, b: HostId, is_cut: bool) {
        let link = (a.min(b), a.max(b));
        self.change(|state| if is_cut { state.cuts.insert(link) } else { state.cuts.remove(&link) });
    }

    /// Makes everything to and from a host take this many times as long.
    pub(crate) fn set_slowness(&self, host: HostId, slowness: u32) {
        self.change(|state| state.hosts[host].slowness = slowness.max(1));
    }

    /// Resets all connections between two hosts, as a firewall that has forgotten them does.
    pub(crate) fn reset_between(&self, a: HostId, b: HostId) {
        self.change(|state| {
            let between =
                |connection: &&mut Connection| connection.hosts == [a, b] || connection.hosts == [b, a];
            let pipes = state.connections.values_mut().filter(between).flat_map(|found| &mut found.pipes);
            state.woken.extend(pipes.flat_map(|pipe| pipe.finish(End::Reset)));
        });
    }

    /// The process of a host ends without a word; its system resets what it had open.
    pub(crate) fn kill(&self, host: HostId) {
        self.change(|state| state.end_process(host, true));
    }

    /// A host loses power.
    pub(crate) fn power_off(&self, host: HostId) {
        self.change(|state| {
            state.end_process(host, false);
            state.hosts[host].has_power = false;
        });
    }

    /// A host has power again.
    pub(crate) fn power_on(&self, host: HostId) {
        self.change(|state| state.hosts[host].has_power = true);
    }
}

/// The network as one host sees it.
struct Seen {
    net: Net,
    host: HostId,
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the simulated network seen from host {}", self.host)
    }
}

/// The address of a host.
fn address_of(host: HostId) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, host as u8).into()
}

impl Network for Seen {
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
        let (answer, answered) = oneshot::channel();
        let found = address
            .rsplit_once(':')
            .and_then(|(name, port)| Some((self.net.0.lock().host_named(name)?, port.parse().ok()?)));
        let Some((to, port)) = found else {
            return async { Err(io::ErrorKind::NotFound.into()) }.boxed();
        };
        let from = self.host;
        self.net.change(|state| {
            // There and back.
            let at = machine::now() + state.latency(from, to) + state.latency(to, from);
            let life = state.hosts[from].life;
            state.dials.push(Dial { from, life, to, port, at, answer });
            state.is_busy = true;
        });
        async { answered.await.unwrap_or_else(|_| Err(io::ErrorKind::ConnectionAborted.into())) }.boxed()
    }

    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let found = self.net.0.lock().host_named(host);
        let found = found.map(|host| vec![address_of(host)]).ok_or_else(|| io::ErrorKind::NotFound.into());
        std::future::ready(found).boxed()
    }

    fn listen(&self, port: u16) -> io::Result<Arrivals> {
        let (sender, arrivals) = unbounded_channel();
        self.net.change(|state| state.hosts[self.host].listeners.insert(port, sender));
        Ok(arrivals)
    }
}

/// One end of a connection.
struct Stream {
    net: Net,
    connection: u64,
    end: usize,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "end {} of connection {}", self.end, self.connection)
    }
}

fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let end = 1 - self.end;
        self.net.change(|state| {
            let Some(connection) = state.connections.get_mut(&self.connection) else {
                return Poll::Ready(Err(reset()));
            };
            let pipe = &mut connection.pipes[end];
            if pipe.readable.is_empty() {
                return match pipe.end {
                    Some(End::Closed) => Poll::Ready(Ok(())),
                    Some(End::Reset) => Poll::Ready(Err(reset())),
                    None => {
                        pipe.reader = Some(cx.waker().clone());
                        Poll::Pending
                    }
                };
            }
            while let Some(bytes) = pipe.readable.front_mut().filter(|_| buf.remaining() > 0) {
                let count = bytes.len().min(buf.remaining());
                buf.put_slice(&bytes[..count]);
                bytes.advance(count);
                pipe.held_bytes -= count;
                if bytes.is_empty() {
                    pipe.readable.pop_front();
                }
            }
            state.woken.extend(pipe.writer.take());
            Poll::Ready(Ok(()))
        })
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.net.change(|state| {
            let Some(connection) = state.connections.get_mut(&self.connection) else {
                return Poll::Ready(Err(reset()));
            };
            let pipe = &mut connection.pipes[self.end];
            if pipe.is_broken || pipe.is_closed {
                return Poll::Ready(Err(reset()));
            }
            let room = PIPE_BYTES.saturating_sub(pipe.held_bytes);
            if room == 0 {
                pipe.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let count = bytes.len().min(room);
            state.send(self.connection, self.end, Segment::Bytes(Bytes::copy_from_slice(&bytes[..count])));
            Poll::Ready(Ok(count))
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.net.change(|state| state.close(self.connection, self.end));
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.net.change(|state| {
            state.close(self.connection, self.end);
            if let Some(connection) = state.connections.get_mut(&self.connection) {
                connection.pipes[1 - self.end].has_no_reader = true;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Lets this much time pass, and everything arrive that is due by then.
    fn pass(net: &Net, duration: Duration) {
        machine::pass_until(machine::now() + duration);
        net.deliver();
    }

    fn connection(net: &Net) -> (Box<dyn ByteStream>, Box<dyn ByteStream>) {
        let mut arrivals = net.seen_from(1).listen(1).unwrap();
        let mut dialled = net.seen_from(0).connect("b:1");
        assert!((&mut dialled).now_or_never().is_none());
        pass(net, Duration::from_secs(1));
        (dialled.now_or_never().unwrap().unwrap(), arrivals.try_recv().unwrap().0)
    }

    /// What can be read now: how many bytes, or an error; `None` if it must be waited for.
    fn read(stream: &mut Box<dyn ByteStream>) -> Option<io::Result<usize>> {
        stream.read(&mut [0; 100]).now_or_never()
    }

    // One test, because the machine has one clock.
    #[test]
    fn bytes_take_their_time_wait_for_cuts_to_be_mended_and_end_with_the_process() {
        let latency = Duration::from_millis(10);
        let weather = Weather { latency: (latency, latency), lost_permille: 0 };
        let net = Net::new(&["a".to_string(), "b".to_string()], weather, Random::new(1, 1));
        assert!(net.seen_from(0).connect("nowhere:1").now_or_never().unwrap().is_err());
        let resolved = |host| net.seen_from(0).resolve(host).now_or_never().unwrap();
        assert_eq!(resolved("b").unwrap(), [address_of(1)], "without the system's resolver, and at once");
        assert!(resolved("nowhere").is_err());

        let (mut client, mut server) = connection(&net);
        client.write_all(b"hello").now_or_never().unwrap().unwrap();
        assert!(read(&mut server).is_none());
        pass(&net, latency);
        assert_eq!(read(&mut server).unwrap().unwrap(), 5);

        net.set_cut(0, 1, true);
        client.write_all(b"later").now_or_never().unwrap().unwrap();
        pass(&net, Duration::from_secs(10));
        assert!(read(&mut server).is_none());
        net.set_cut(0, 1, false);
        pass(&net, Duration::ZERO);
        pass(&net, Duration::from_secs(1));
        assert_eq!(read(&mut server).unwrap().unwrap(), 5, "what was sent is sent again");

        drop(server);
        pass(&net, latency);
        assert_eq!(read(&mut client).unwrap().unwrap(), 0, "closed");

        let (mut client, server) = connection(&net);
        net.kill(1);
        drop(server);
        pass(&net, latency);
        assert!(read(&mut client).unwrap().is_err(), "reset");

        let (mut client, server) = connection(&net);
        net.power_off(1);
        drop(server);
        pass(&net, Duration::from_secs(5));
        assert!(read(&mut client).is_none(), "nobody says anything");
        net.power_on(1);
        pass(&net, Duration::ZERO);
        pass(&net, KEEP_ALIVE);
        assert!(read(&mut client).unwrap().is_err(), "whoever is there now knows nothing of it");

        let (mut client, mut server) = connection(&net);
        net.set_cut(0, 1, true);
        pass(&net, Duration::ZERO);
        pass(&net, GIVE_UP);
        assert!(read(&mut client).unwrap().is_err() && read(&mut server).unwrap().is_err());
    }
}
