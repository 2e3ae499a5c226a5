//! One connection to a server, kept up: connects, finds the master, classifies what goes wrong, connects again.
//!
//! Many calls share the connection, each sent at once and answered in order. Nothing is ever sent a second time by this
//! layer: a call whose answer was lost fails, and only the caller knows whether it may be repeated. After a failure the
//! connection is dropped and the next call makes a new one; when that fails too, calls fail at once for a moment that
//! grows ([`PAUSE_MIN`] to [`PAUSE_MAX`]), so that a server that comes back is not stormed.
//!
//! Where the master is, is asked anew for every connection: of the sentinels, or, in a cluster, of the node that says
//! that our slot has moved.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo, Pipeline, ProtocolVersion,
    RedisConnectionInfo, RedisError, Value, cmd, pipe,
};
use tokio::sync::Mutex;

use crate::clock::{Clock, Stopwatch, SystemClock, Timestamp};
use crate::entropy::Entropy;
use crate::error::StoreError;
use crate::store::redis::address::{Address, Place};
use crate::store::redis::script::Call;

/// How long a connection may take to be made.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
/// How long calls fail at once after a connection could not be made: doubled each time, and spread.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Nodes of a cluster that send us on, one after the other.
const HOPS_MAX: u32 = 5;
/// The oldest server that has every command used here.
const VERSION_MIN: (u32, u32) = (6, 2);
/// The first server whose scripts may say that they can run without free memory.
const VERSION_WITH_FLAGS: (u32, u32) = (7, 0);

/// One connection, whatever becomes of it.
#[derive(Debug)]
pub(super) struct Link {
    address: Arc<Address>,
    answer_time_max: Duration,
    entropy: Entropy,
    clock: SystemClock,
    slot: Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    up: Option<Up>,
    /// Counts the connections made, so that a failure drops the one it happened on and no newer one.
    generation: u64,
    /// The node that has our slot of a cluster, where it is known.
    moved_to: Option<(String, u16)>,
    failed: Option<Failed>,
}

/// A connection that is up.
#[derive(Debug, Clone)]
struct Up {
    connection: MultiplexedConnection,
    place: ConnectionAddr,
    generation: u64,
    server: Server,
}

/// What a server said of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Server {
    pub(super) version: (u32, u32),
    /// How far its clock is ahead of ours, in milliseconds.
    pub(super) clock_offset_ms: i64,
}

impl Server {
    /// Whether its scripts can say that they need no free memory.
    pub(super) fn has_script_flags(self) -> bool {
        self.version >= VERSION_WITH_FLAGS
    }
}

#[derive(Debug)]
struct Failed {
    since: Stopwatch,
    pause: Duration,
    error: StoreError,
}

impl Link {
    pub(super) fn new(address: Arc<Address>, answer_time_max: Duration) -> Link {
        let (entropy, clock) = (Entropy::from_system(), SystemClock::new());
        Link { address, answer_time_max, entropy, clock, slot: Mutex::default() }
    }

    /// Runs a script, and loads it first if the server does not know it.
    pub(super) async fn call(&self, tried: &'static str, call: &Call) -> Result<Value, StoreError> {
        let up = self.up(tried).await?;
        self.call_on(tried, &up, call).await
    }

    async fn call_on(&self, tried: &'static str, up: &Up, call: &Call) -> Result<Value, StoreError> {
        let command = call.command(up.server.has_script_flags());
        match send(up, &command).await {
            Ok(value) => Ok(value),
            Err(error) if error.code() == Some("NOSCRIPT") => {
                let mut load = cmd("SCRIPT");
                load.arg("LOAD").arg(call.script.text(up.server.has_script_flags()));
                self.query_on(tried, up, &load).await?;
                self.query_on(tried, up, &command).await
            }
            Err(error) => Err(self.failed(tried, up, &error).await),
        }
    }

    /// Runs one command.
    pub(super) async fn query(&self, tried: &'static str, command: &Cmd) -> Result<Value, StoreError> {
        let up = self.up(tried).await?;
        self.query_on(tried, &up, command).await
    }

    async fn query_on(&self, tried: &'static str, up: &Up, command: &Cmd) -> Result<Value, StoreError> {
        match send(up, command).await {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failed(tried, up, &error).await),
        }
    }

    /// Runs several commands, in one transaction if the pipeline says so.
    pub(super) async fn pipe(&self, tried: &'static str, pipe: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let up = self.up(tried).await?;
        match pipe.query_async::<Vec<Value>>(&mut up.connection.clone()).await {
            Ok(values) => Ok(values),
            Err(error) => Err(self.failed(tried, &up, &error).await),
        }
    }

    /// Runs a script and then waits for what a second command says, both on the same connection.
    pub(super) async fn call_then(
        &self,
        tried: &'static str,
        call: &Call,
        then: &Cmd,
    ) -> Result<(Value, Value), StoreError> {
        let up = self.up(tried).await?;
        let value = self.call_on(tried, &up, call).await?;
        Ok((value, self.query_on(tried, &up, then).await?))
    }

    /// What the server said of itself when the connection was made.
    pub(super) async fn server(&self, tried: &'static str) -> Result<Server, StoreError> {
        Ok(self.up(tried).await?.server)
    }

    /// Where the server is that is spoken to now.
    pub(super) async fn place(&self) -> Option<ConnectionAddr> {
        self.up("wait").await.ok().map(|up| up.place)
    }

    /// The connection, made now if there is none.
    async fn up(&self, tried: &'static str) -> Result<Up, StoreError> {
        let mut slot = self.slot.lock().await;
        if let Some(up) = &slot.up {
            return Ok(up.clone());
        }
        if let Some(failed) = slot.failed.as_ref().filter(|failed| failed.since.elapsed() < failed.pause) {
            return Err(retold(tried, &failed.error));
        }
        match self.connect(tried, slot.moved_to.take()).await {
            Ok((connection, place, server)) => {
                slot.generation += 1;
                slot.failed = None;
                let up = Up { connection, place, generation: slot.generation, server };
                slot.up = Some(up.clone());
                Ok(up)
            }
            Err(error) => {
                let longest = slot.failed.as_ref().map_or(PAUSE_MIN, |failed| (failed.pause * 2).min(PAUSE_MAX));
                let pause = longest.mul_f64(0.5 + 0.5 * self.entropy.fraction());
                slot.failed = Some(Failed { since: Stopwatch::start(), pause, error: error.clone() });
                Err(error)
            }
        }
    }

    /// Says what an error means, and drops the connection if it is to blame.
    async fn failed(&self, tried: &'static str, up: &Up, error: &RedisError) -> StoreError {
        let moved = moved_to_of(error, &up.place);
        let is_elsewhere = matches!(error.code(), Some("READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "MOVED"));
        if error.is_io_error() || error.is_unrecoverable_error() || is_elsewhere {
            let mut slot = self.slot.lock().await;
            if slot.generation == up.generation {
                slot.up = None;
                slot.moved_to = moved;
            }
        }
        meaning(tried, &self.address, error)
    }

    /// Makes a connection: to the master the sentinels name, or to the first place that answers.
    async fn connect(
        &self,
        tried: &'static str,
        moved_to: Option<(String, u16)>,
    ) -> Result<(MultiplexedConnection, ConnectionAddr, Server), StoreError> {
        let mut places: VecDeque<ConnectionAddr> = self.candidates(tried, moved_to).await?.into();
        let (mut error, mut hops) = (None, 0);
        while let Some(place) = places.pop_front() {
            match self.connect_to(&place).await {
                Ok((connection, server)) => {
                    self.refuse_old(server)?;
                    return Ok((connection, place, server));
                }
                Err(next) => {
                    if let Some(node) = moved_to_of(&next, &place).filter(|_| hops < HOPS_MAX) {
                        hops += 1;
                        places.push_front(self.host(&node));
                    }
                    error = error.or(Some(meaning(tried, &self.address, &next)));
                }
            }
        }
        Err(error.unwrap_or_else(|| unavailable(tried, &self.address, "no host to connect to".to_owned())))
    }

    async fn candidates(
        &self,
        tried: &'static str,
        moved_to: Option<(String, u16)>,
    ) -> Result<Vec<ConnectionAddr>, StoreError> {
        match &self.address.place {
            Place::Socket(path) => Ok(vec![ConnectionAddr::Unix(path.clone())]),
            Place::Hosts(hosts) => Ok(moved_to.iter().chain(hosts).map(|host| self.host(host)).collect()),
            Place::Sentinels(sentinels, master) => {
                self.ask_sentinels(tried, sentinels, master).await.map(|at| vec![at])
            }
        }
    }

    fn host(&self, (host, port): &(String, u16)) -> ConnectionAddr {
        if self.address.is_encrypted {
            let (host, port) = (host.clone(), *port);
            return ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
        }
        ConnectionAddr::Tcp(host.clone(), *port)
    }

    async fn ask_sentinels(
        &self,
        tried: &'static str,
        sentinels: &[(String, u16)],
        master: &str,
    ) -> Result<ConnectionAddr, StoreError> {
        let mut found = format!("none of {} sentinels answered", sentinels.len());
        let mut question = cmd("SENTINEL");
        question.arg("get-master-addr-by-name").arg(master);
        for sentinel in sentinels {
            let place = ConnectionAddr::Tcp(sentinel.0.clone(), sentinel.1);
            let answer = match open(place, RedisConnectionInfo::default(), self.answer_time_max).await {
                Ok(mut connection) => question.query_async::<Option<(String, u16)>>(&mut connection).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(Some(host)) => return Ok(self.host(&host)),
                Ok(None) => found = format!("the sentinels know no master {master:?}"),
                Err(error) => found = format!("sentinel {}:{}: {error}", sentinel.0, sentinel.1),
            }
        }
        Err(unavailable(tried, &self.address, found))
    }

    async fn connect_to(&self, place: &ConnectionAddr) -> Result<(MultiplexedConnection, Server), RedisError> {
        let mut connection = open(place.clone(), login(&self.address), self.answer_time_max).await?;
        let server = self.examine(&mut connection).await?;
        Ok((connection, server))
    }

    fn refuse_old(&self, server: Server) -> Result<(), StoreError> {
        if server.version >= VERSION_MIN {
            return Ok(());
        }
        let (major, minor) = server.version;
        Err(StoreError::Refused {
            tried: "use",
            store: self.address.to_url(),
            found: format!("the server is of version {major}.{minor}"),
            hint: "Redis 6.2, Valkey 7.2 or newer is needed".to_owned(),
        })
    }

    /// Asks a server for its version and the time, that it is no replica, and that it has our slot of a cluster.
    async fn examine(&self, connection: &mut MultiplexedConnection) -> Result<Server, RedisError> {
        cmd("EXISTS").arg(format!("{}queues", self.address.prefix())).query_async::<()>(connection).await?;
        let began = self.clock.now();
        let mut questions = pipe();
        questions.cmd("INFO").arg("server").cmd("TIME").cmd("ROLE");
        let (info, time, role): (String, (i64, i64), Vec<Value>) = questions.query_async(connection).await?;
        let ended = self.clock.now();
        if let Some(Value::BulkString(role)) = role.first()
            && role != b"master"
        {
            let role = String::from_utf8_lossy(role).into_owned();
            return Err((redis::ErrorKind::Io, "not the master", role).into());
        }
        let half_way = began.as_millis() + (ended.as_millis() - began.as_millis()) / 2;
        let clock_offset_ms = time.0 * 1_000 + time.1 / 1_000 - half_way;
        Ok(Server { version: version_of(&info), clock_offset_ms })
    }
}

/// Sends a command. The driver hands on an error of the server as an answer: it is made an error here.
async fn send(up: &Up, command: &Cmd) -> Result<Value, RedisError> {
    up.connection.clone().send_packed_command(command).await.and_then(Value::extract_error)
}

/// Who we are to a server.
pub(super) fn login(address: &Address) -> RedisConnectionInfo {
    let mut login = RedisConnectionInfo::default().set_db(address.db).set_skip_set_lib_name();
    if let Some(user) = &address.user {
        login = login.set_username(user);
    }
    if let Some(password) = &address.password {
        login = login.set_password(password);
    }
    login
}

async fn open(
    place: ConnectionAddr,
    login: RedisConnectionInfo,
    answer_time_max: Duration,
) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIME_MAX))
        .set_response_timeout(Some(answer_time_max));
    let info = place.into_connection_info()?.set_redis_settings(login.set_protocol(ProtocolVersion::RESP2));
    Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await
}

/// Major and minor version out of `INFO server`. Compatible servers tell the version of Redis that they are like.
fn version_of(info: &str) -> (u32, u32) {
    let text = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or_default();
    let mut numbers = text.split('.').map(|number| number.trim().parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn unavailable(tried: &'static str, address: &Address, detail: String) -> StoreError {
    StoreError::Unavailable { tried, store: address.to_url(), detail }
}

/// The error of another call, told of this one.
fn retold(tried: &'static str, error: &StoreError) -> StoreError {
    match error.clone() {
        StoreError::Unavailable { store, detail, .. } => StoreError::Unavailable { tried, store, detail },
        other => other,
    }
}

/// What an error of the driver or of the server means to a caller.
fn meaning(tried: &'static str, address: &Address, error: &RedisError) -> StoreError {
    let store = address.to_url();
    let found = error.to_string();
    let refused = |hint: &str| StoreError::Refused {
        tried: "use",
        store: store.clone(),
        found: found.clone(),
        hint: hint.to_owned(),
    };
    match error.code() {
        Some("OOM" | "MISCONF") => StoreError::Full { tried, store, detail: found },
        Some("NOAUTH" | "WRONGPASS") => refused("give user and password in the URL: redis://user:password@host"),
        Some("NOPERM") => refused("let the user run every command on the store's keys"),
        Some("WRONGTYPE") => refused("a key of ours belongs to another program: give a namespace of your own"),
        Some("CROSSSLOT") => refused("a cluster needs a namespace with a tag, such as ?namespace={app}"),
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => {
            refused("give user and password in the URL: redis://user:password@host")
        }
        // Servers before 7.0 tell what stopped a script within a longer text.
        Some("ERR") if found.contains("OOM command not allowed") => StoreError::Full { tried, store, detail: found },
        Some("ERR") if found.contains("WAITAOF") => refused("durability=logged needs Redis or Valkey of 7.2 or newer"),
        Some("ERR") => refused("look into the server's log; is it a Redis or Valkey of 6.2 or newer?"),
        _ => StoreError::Unavailable { tried, store, detail: found },
    }
}

/// The node of a cluster that has our slot, if the error says so. A node may leave out a host that is its own.
fn moved_to_of(error: &RedisError, asked: &ConnectionAddr) -> Option<(String, u16)> {
    let (node, _slot) = error.redirect_node().filter(|_| error.code() == Some("MOVED"))?;
    let (host, port) = node.rsplit_once(':')?;
    let host = match asked {
        ConnectionAddr::Tcp(own, _) | ConnectionAddr::TcpTls { host: own, .. } if host.is_empty() => own,
        _ => host,
    };
    Some((host.to_owned(), port.parse().ok()?))
}

/// The time by our clock and the server's offset.
pub(super) fn server_time(clock: &dyn Clock, offset_ms: i64) -> Timestamp {
    Timestamp::from_millis(clock.now().as_millis() + offset_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_out_of_what_the_server_says() {
        assert_eq!(version_of("# Server\r\nredis_version:7.0.15\r\nredis_mode:x\r\n"), (7, 0));
        assert_eq!(version_of("nothing"), (0, 0));
    }

    #[test]
    fn a_call_that_fails_says_whose_failure_it_is() {
        let address = Address::parse("redis://:secret@h").unwrap();
        let told = |code: &str| {
            let error = redis::make_extension_error(code.to_owned(), Some("detail".to_owned()));
            meaning("insert", &address, &error)
        };

        assert!(matches!(told("OOM"), StoreError::Full { .. }));
        assert!(matches!(told("READONLY"), StoreError::Unavailable { .. }));
        assert!(matches!(told("LOADING"), StoreError::Unavailable { .. }));
        assert!(matches!(told("NOAUTH"), StoreError::Refused { .. }));
        assert!(!told("NOAUTH").to_string().contains("secret"));
    }
}
