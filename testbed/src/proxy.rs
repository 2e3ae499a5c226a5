//! A bad network between a client and a server: a TCP proxy that does one thing wrong at a time.
//!
//! Each connection has two threads, one for each direction; each carries what it read according to the fault of the
//! moment. A fault begins with the next bytes and ends when it is healed or another takes its place, so a test can
//! switch it in the middle of anything. [`Fault::Cut`] strikes once and heals by itself; `strikes` counts.
//!
//! A stream with a hole in it is never carried on: a connection that lost bytes to [`Fault::Swallow`] stays silent in
//! that direction, and is reset when the fault is healed and one of its ends closes.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::port::Port;
use crate::wait;

/// How much is carried at once.
const PIECE_LEN: usize = 64 * 1024;

/// How long the server behind the proxy may take to accept.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// From the client to the server, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// What clients send.
    Requests,
    /// What the server answers.
    Replies,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Each piece, of at most 64 KiB, is carried on after so long, in both directions. What comes meanwhile waits for
    /// its own turn.
    Delay(Duration),
    /// Each byte is sent by itself, in both directions.
    Slice,
    /// The connection that carries the byte after so many more in that direction is ended before that byte: the
    /// receiver finds the end of the stream, the sender a reset. Strikes once, then nothing is wrong any more.
    Cut {
        /// Where the bytes are counted, over all connections.
        direction: Direction,
        /// How many bytes are still carried.
        after_bytes: u64,
    },
    /// What is sent in this direction is lost, and nobody is told: a half-open connection.
    Swallow(Direction),
    /// What is sent in this direction arrives when the fault is healed.
    Stall(Direction),
    /// Nobody listens at the port, and connections there were are reset: the server's machine is there, the server is
    /// not.
    Refuse,
}

/// A proxy in front of a port of the loopback address. Its threads and connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    plan: Mutex<Plan>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Plan {
    fault: Fault,
    is_closing: bool,
    is_listening: bool,
    /// Why the port cannot be listened at again.
    failure: Option<String>,
    connections: HashMap<u64, Connection>,
    accepted: u64,
    strikes: u64,
    carried: [u64; 2],
}

#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
    /// Directions that have ended.
    ended: u8,
}

/// One direction of one connection.
struct Flow {
    connection: u64,
    direction: Direction,
    from: TcpStream,
    to: TcpStream,
    has_hole: bool,
}

impl Proxy {
    /// Starts a proxy in front of `server_port`.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn to(server_port: u16) -> Result<Proxy> {
        let port = Port::reserve()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())).context("cannot listen as a proxy")?;
        let shared = Arc::new(Shared {
            server: SocketAddr::from((Ipv4Addr::LOCALHOST, server_port)),
            plan: Mutex::new(Plan { is_listening: true, ..Plan::default() }),
            changed: Condvar::new(),
        });
        let (listens, number) = (Arc::clone(&shared), port.number());
        let listening = std::thread::Builder::new()
            .name(format!("proxy {number}"))
            .spawn(move || listens.listen(number, listener))
            .context("cannot start the proxy's thread")?;
        Ok(Proxy { port, shared, listening: Some(listening) })
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Makes `fault` the one that is, in the place of any other.
    ///
    /// # Errors
    /// When the proxy cannot listen again after it refused.
    pub fn set(&self, fault: Fault) -> Result<()> {
        self.shared.plan().fault = fault;
        self.shared.changed.notify_all();
        if fault == Fault::Refuse {
            self.knock();
            self.cut_all();
        }
        self.until_listening(fault != Fault::Refuse)
    }

    /// Ends the fault.
    ///
    /// # Errors
    /// As [`Proxy::set`].
    pub fn heal(&self) -> Result<()> {
        self.set(Fault::None)
    }

    /// Resets every connection there is; new ones are welcome.
    pub fn cut_all(&self) {
        let connections = std::mem::take(&mut self.shared.plan().connections);
        connections.values().for_each(Connection::reset);
        self.shared.changed.notify_all();
    }

    /// How many connections there are.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.plan().connections.len()
    }

    /// How many connections there have been.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.plan().accepted
    }

    /// How often [`Fault::Cut`] has struck.
    #[must_use]
    pub fn strikes(&self) -> u64 {
        self.shared.plan().strikes
    }

    /// How many bytes were carried.
    #[must_use]
    pub fn carried(&self, direction: Direction) -> u64 {
        self.shared.plan().carried[direction as usize]
    }

    /// Wakes the thread that accepts, by a connection to it.
    fn knock(&self) {
        // Where nobody listens there is nobody to be woken.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port()));
    }

    fn until_listening(&self, wanted: bool) -> Result<()> {
        wait::until("the proxy to take or give up its port", wait::LIMIT, || {
            let plan = self.shared.plan();
            match &plan.failure {
                Some(failure) => anyhow::bail!("the proxy at port {} cannot listen again: {failure}", self.port()),
                None => Ok((plan.is_listening == wanted).then_some(())),
            }
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.plan().is_closing = true;
        self.shared.changed.notify_all();
        self.knock();
        self.cut_all();
        if let Some(listening) = self.listening.take() {
            // Its panic, if there was one, has been printed.
            let _ = listening.join();
        }
        // One that was accepted meanwhile.
        self.cut_all();
    }
}

impl Connection {
    fn reset(&self) {
        reset(&self.client);
        reset(&self.server);
    }
}

/// Ends a connection so that the other side gets an error, at once, and not an orderly end.
fn reset(stream: &TcpStream) {
    // Both fail only where the connection is gone already. Without `shutdown` the threads that hold the other
    // handles of this socket would go on.
    let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
    let _ = stream.shutdown(Shutdown::Both);
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, plan: MutexGuard<'a, Plan>) -> MutexGuard<'a, Plan> {
        self.changed.wait(plan).unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts for as long as the proxy lives, and gives up the port while it refuses.
    fn listen(self: &Arc<Self>, port: u16, first: TcpListener) {
        let mut listener = Some(first);
        loop {
            let mut plan = self.plan();
            while plan.fault == Fault::Refuse && !plan.is_closing {
                listener = None;
                plan.is_listening = false;
                plan = self.wait(plan);
            }
            if plan.is_closing {
                return;
            }
            drop(plan);
            let accepted = match &listener {
                Some(listener) => listener.accept(),
                None => {
                    self.listen_again(port, &mut listener);
                    continue;
                }
            };
            if let Ok((client, _)) = accepted {
                self.welcome(client);
            }
        }
    }

    fn listen_again(&self, port: u16, listener: &mut Option<TcpListener>) {
        let bound = wait::until("the port", wait::LIMIT, || Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()));
        let mut plan = self.plan();
        match bound {
            Ok(bound) => {
                *listener = Some(bound);
                plan.is_listening = true;
            }
            Err(error) => {
                plan.failure = Some(format!("{error:#}"));
                plan.is_closing = true;
            }
        }
    }

    /// Connects a client to the server. Where that fails the client finds its connection closed.
    fn welcome(self: &Arc<Self>, client: TcpStream) {
        let Ok(server) = TcpStream::connect_timeout(&self.server, CONNECT_LIMIT) else { return };
        if self.carry_both(&client, &server).is_err() {
            reset(&client);
            reset(&server);
        }
    }

    fn carry_both(self: &Arc<Self>, client: &TcpStream, server: &TcpStream) -> std::io::Result<()> {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let mut plan = self.plan();
        if plan.is_closing || plan.fault == Fault::Refuse {
            return Err(std::io::ErrorKind::ConnectionRefused.into());
        }
        plan.accepted += 1;
        let id = plan.accepted;
        let connection = Connection { client: client.try_clone()?, server: server.try_clone()?, ended: 0 };
        plan.connections.insert(id, connection);
        drop(plan);
        let (up, down) = (client.try_clone()?, server.try_clone()?);
        self.carry(Flow::new(id, Direction::Requests, up, server.try_clone()?))?;
        self.carry(Flow::new(id, Direction::Replies, down, client.try_clone()?))
    }

    fn carry(self: &Arc<Self>, mut flow: Flow) -> std::io::Result<()> {
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name(format!("proxy flow {}", flow.connection));
        thread.spawn(move || flow.run(&shared)).map(drop)
    }
}

/// What is to be done with a piece.
enum Step {
    Send,
    SendSliced,
    SendAndCut(usize),
    Lose,
    GiveUp,
}

impl Flow {
    fn new(connection: u64, direction: Direction, from: TcpStream, to: TcpStream) -> Flow {
        Flow { connection, direction, from, to, has_hole: false }
    }

    fn run(&mut self, shared: &Shared) {
        let mut piece = vec![0; PIECE_LEN];
        let is_orderly = loop {
            match self.from.read(&mut piece) {
                Ok(0) => break true,
                Ok(len) if self.pass(shared, &piece[..len]) => {}
                Ok(_) | Err(_) => break false,
            }
        };
        self.end(shared, is_orderly);
    }

    /// Carries a piece, and answers whether to go on.
    fn pass(&mut self, shared: &Shared, piece: &[u8]) -> bool {
        let sent = match self.decide(shared, piece.len()) {
            Step::Send => self.to.write_all(piece),
            Step::SendSliced => piece.iter().try_for_each(|byte| self.to.write_all(std::slice::from_ref(byte))),
            Step::SendAndCut(len) => {
                // The receiver is to see all of the bytes and then the end: no reset on this side.
                let _ = self.to.write_all(&piece[..len]).and_then(|()| self.to.shutdown(Shutdown::Both));
                reset(&self.from);
                return false;
            }
            Step::Lose => {
                self.has_hole = true;
                return true;
            }
            Step::GiveUp => return false,
        };
        sent.is_ok()
    }

    /// Waits as long as the fault asks for, and says what becomes of `len` bytes.
    fn decide(&self, shared: &Shared, len: usize) -> Step {
        let since = Instant::now();
        let mut plan = shared.plan();
        let step = loop {
            if plan.is_closing || !plan.connections.contains_key(&self.connection) {
                return Step::GiveUp;
            }
            match plan.fault {
                _ if self.has_hole => return Step::Lose,
                Fault::Swallow(direction) if direction == self.direction => return Step::Lose,
                Fault::Stall(direction) if direction == self.direction => plan = shared.wait(plan),
                Fault::Delay(delay) => {
                    let Some(left) = delay.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) else {
                        break Step::Send;
                    };
                    plan = shared.changed.wait_timeout(plan, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                Fault::Cut { direction, after_bytes } if direction == self.direction => {
                    break self.count_down(&mut plan, after_bytes, len);
                }
                Fault::Slice => break Step::SendSliced,
                _ => break Step::Send,
            }
        };
        let sent_len = if let Step::SendAndCut(sent_len) = step { sent_len } else { len };
        plan.carried[self.direction as usize] += sent_len as u64;
        step
    }

    fn count_down(&self, plan: &mut Plan, after_bytes: u64, len: usize) -> Step {
        if let Some(after_bytes) = after_bytes.checked_sub(len as u64) {
            plan.fault = Fault::Cut { direction: self.direction, after_bytes };
            return Step::Send;
        }
        plan.fault = Fault::None;
        plan.strikes += 1;
        plan.connections.remove(&self.connection);
        Step::SendAndCut(usize::try_from(after_bytes).unwrap_or(len))
    }

    /// Tells the other side of the end: in order, or by a reset where bytes are missing.
    fn end(&self, shared: &Shared, is_orderly: bool) {
        let mut plan = shared.plan();
        let is_held = |fault| fault == Fault::Swallow(self.direction) || fault == Fault::Stall(self.direction);
        // An end travels like bytes do.
        while is_held(plan.fault) && !plan.is_closing && plan.connections.contains_key(&self.connection) {
            plan = shared.wait(plan);
        }
        let Some(connection) = plan.connections.get_mut(&self.connection) else { return };
        connection.ended += 1;
        let is_over = connection.ended == 2;
        if !is_orderly || self.has_hole {
            connection.reset();
        } else {
            // It fails where the other side is gone already.
            let _ = self.to.shutdown(Shutdown::Write);
        }
        if is_over {
            plan.connections.remove(&self.connection);
        }
    }
}
