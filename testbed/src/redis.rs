//! The real redis-server, or valkey-server, on a port and a unix socket of its own.
//!
//! It is ready when it answers PING, not when it was started. Killed and started again it has the same port, socket,
//! folder and options, so what comes back is what its persistence kept. `WINDLASS_REDIS_BIN` names another program to
//! be tried instead of `redis-server`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::port::Port;
use crate::program::{Program, is_installed};
use crate::resp::{Link, Reply};
use crate::wait;

/// How often another port is tried when somebody took ours between the look and the start.
const STARTS_MAX: u32 = 5;

/// Which server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavor {
    /// `redis-server`, or what `WINDLASS_REDIS_BIN` names.
    #[default]
    Redis,
    /// `valkey-server`.
    Valkey,
}

impl Flavor {
    /// The program to start.
    #[must_use]
    pub fn program(self) -> String {
        match self {
            Flavor::Redis => std::env::var("WINDLASS_REDIS_BIN").unwrap_or_else(|_| "redis-server".to_owned()),
            Flavor::Valkey => "valkey-server".to_owned(),
        }
    }

    /// Whether it is there.
    #[must_use]
    pub fn is_installed(self) -> bool {
        is_installed(&self.program())
    }
}

/// What of the data outlives the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// Nothing.
    #[default]
    None,
    /// The append-only file, brought to the disk every second.
    EverySecond,
    /// The append-only file, brought to the disk before a command is answered.
    Always,
}

/// How a server is to be started. The default is an empty server that keeps nothing and lets everybody in.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    /// Which server.
    pub flavor: Flavor,
    /// What of the data outlives the process.
    pub persistence: Persistence,
    /// The memory it may use for data, with the policy `noeviction`; none is no limit.
    pub memory_max_bytes: Option<u64>,
    /// What clients must say first.
    pub password: Option<String>,
    /// Further lines of its configuration: a name, and its values.
    pub extra: Vec<(String, String)>,
}

impl RedisOptions {
    /// With the append-only file.
    #[must_use]
    pub fn persistence(mut self, persistence: Persistence) -> Self {
        self.persistence = persistence;
        self
    }

    /// With so much memory for data.
    #[must_use]
    pub fn memory_max_bytes(mut self, bytes: u64) -> Self {
        self.memory_max_bytes = Some(bytes);
        self
    }

    /// With a password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// With one more line of configuration.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.extra.push((name.to_owned(), value.to_owned()));
        self
    }

    fn lines(&self, port: u16, folder: &Path) -> Vec<String> {
        let (aof, fsync) = match self.persistence {
            Persistence::None => ("no", "no"),
            Persistence::EverySecond => ("yes", "everysec"),
            Persistence::Always => ("yes", "always"),
        };
        let mut lines = vec![
            format!("port {port}"),
            "bind 127.0.0.1".to_owned(),
            format!("unixsocket {}", socket_in(folder).display()),
            format!("dir {}", folder.display()),
            "save \"\"".to_owned(),
            format!("appendonly {aof}"),
            format!("appendfsync {fsync}"),
            "daemonize no".to_owned(),
        ];
        if let Some(bytes) = self.memory_max_bytes {
            lines.push(format!("maxmemory {bytes}"));
            lines.push("maxmemory-policy noeviction".to_owned());
        }
        if let Some(password) = &self.password {
            lines.push(format!("requirepass {password}"));
            lines.push(format!("masterauth {password}"));
        }
        lines.extend(self.extra.iter().map(|(name, value)| format!("{name} {value}")));
        lines
    }
}

fn socket_in(folder: &Path) -> PathBuf {
    folder.join("redis.sock")
}

/// What a server program is started as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Sentinel,
}

/// A running server. Ended when it is dropped; its data goes with it.
#[derive(Debug)]
pub struct RedisServer {
    // Fields are dropped in this order: the process, then its port, then its folder.
    program: Program,
    port: Port,
    folder: TempDir,
    options: RedisOptions,
    role: Role,
}

impl RedisServer {
    /// Starts an empty server that keeps nothing, and waits until it answers.
    ///
    /// # Errors
    /// When the program is not installed, or does not answer in time.
    pub fn start() -> Result<RedisServer> {
        RedisServer::start_with(RedisOptions::default())
    }

    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// When the program is not installed, refuses its options, or does not answer in time.
    pub fn start_with(options: RedisOptions) -> Result<RedisServer> {
        RedisServer::start_as(Role::Server, options)
    }

    pub(crate) fn start_as(role: Role, options: RedisOptions) -> Result<RedisServer> {
        ensure!(
            options.flavor.is_installed(),
            "{} is not installed: `cargo xtask test` installs it, or on Debian: apt-get install redis-server",
            options.flavor.program()
        );
        let mut tries = 0;
        loop {
            tries += 1;
            let port = Port::reserve()?;
            let folder = tempfile::tempdir().context("cannot make a folder for the server")?;
            let program = launch(role, &options, port.number(), folder.path())?;
            let mut server = RedisServer { program, port, folder, options: options.clone(), role };
            match server.until_ready() {
                Ok(()) => return Ok(server),
                Err(error) if tries < STARTS_MAX && is_port_taken(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// As [`RedisServer::start_with`], or `None`, with a line on the error output that no test harness hides, when the
    /// program is not installed. For what one distribution has and another does not.
    ///
    /// # Errors
    /// When it is installed and does not start.
    pub fn start_or_skip(options: RedisOptions) -> Result<Option<RedisServer>> {
        if options.flavor.is_installed() {
            return RedisServer::start_with(options).map(Some);
        }
        skip(&format!("{} is not installed", options.flavor.program()));
        Ok(None)
    }

    /// Where it listens: the port of the loopback address.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Where it listens: the unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket_in(self.folder.path())
    }

    /// Its process id.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.program.id()
    }

    /// The folder of its data and its log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `redis://…` with the password, if there is one, and database 0.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(self.port())
    }

    /// As [`RedisServer::url`], for a proxy that stands in front on `port`.
    #[must_use]
    pub fn url_of(&self, port: u16) -> String {
        match &self.options.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{port}/0"),
            None => format!("redis://127.0.0.1:{port}/0"),
        }
    }

    /// `unix://…`, without a password.
    #[must_use]
    pub fn unix_url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// A connection that has said the password.
    ///
    /// # Errors
    /// When the server is not there.
    pub fn link(&self) -> Result<Link> {
        let mut link = Link::tcp(self.port())?;
        if let Some(password) = &self.options.password {
            link.call(&["AUTH", password])?;
        }
        Ok(link)
    }

    /// One command on a connection of its own, as the command line client would do it.
    ///
    /// # Errors
    /// When the server is not there, or answers an error.
    pub fn cli<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Reply> {
        self.link()?.call(words)
    }

    /// A number from `INFO`, such as `total_commands_processed`; or `None` when there is no such line.
    ///
    /// # Errors
    /// When the server is not there.
    pub fn info(&self, field: &str) -> Result<Option<f64>> {
        Ok(self.info_text(field)?.and_then(|value| value.parse().ok()))
    }

    /// A value from `INFO` as text; or `None` when there is no such line.
    ///
    /// # Errors
    /// When the server is not there.
    pub fn info_text(&self, field: &str) -> Result<Option<String>> {
        let text = self.cli(&["INFO", "everything"])?.text();
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(line.map(|value| value.trim().to_owned()))
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill9(&mut self) {
        self.program.kill();
    }

    /// Asks it to end, as an administrator would, and waits until it has.
    ///
    /// # Errors
    /// When it does not.
    pub fn terminate(&mut self) -> Result<()> {
        self.program.signal(Signal::TERM)?;
        self.program.wait(wait::LIMIT)?;
        self.program.kill();
        Ok(())
    }

    /// Starts it again with the same port, socket, folder and options, after killing it if it runs, and waits until it
    /// answers, which is after it has read what it kept.
    ///
    /// # Errors
    /// When it does not answer in time.
    pub fn restart(&mut self) -> Result<()> {
        self.program.kill();
        // A killed server leaves its socket behind.
        let _ = std::fs::remove_file(self.socket());
        self.program = launch(self.role, &self.options, self.port(), self.folder.path())?;
        self.until_ready()
    }

    /// Halts it where it is: connections stay open, and nothing is answered.
    ///
    /// # Errors
    /// When it has ended.
    pub fn stop_signal(&mut self) -> Result<()> {
        self.program.stop()
    }

    /// Lets it go on after [`RedisServer::stop_signal`].
    ///
    /// # Errors
    /// When it has ended.
    pub fn cont_signal(&mut self) -> Result<()> {
        self.program.go_on()
    }

    /// The end of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.program.tail()
    }

    fn until_ready(&mut self) -> Result<()> {
        let (port, password) = (self.port.number(), self.options.password.clone());
        let program = &mut self.program;
        let ready = wait::until(&format!("an answer to PING at port {port}"), wait::LIMIT, || {
            if let Some(status) = program.ended()? {
                bail!("the server ended at once, with {status}");
            }
            Ok(is_answering(port, password.as_deref()).then_some(()))
        });
        ready
            .with_context(|| format!("the server at port {port} does not start; its log ends with\n{}", program.tail()))
    }
}

/// Whether the server at `port` lets a client in and is not busy reading its data.
fn is_answering(port: u16, password: Option<&str>) -> bool {
    let Ok(mut link) = Link::tcp(port) else { return false };
    let is_in = password.is_none_or(|password| link.call(&["AUTH", password]).is_ok());
    is_in && link.call(&["PING"]).is_ok()
}

fn is_port_taken(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("Address already in use")
}

fn launch(role: Role, options: &RedisOptions, port: u16, folder: &Path) -> Result<Program> {
    let file = folder.join("server.conf");
    // A server that changes its own configuration, as the members of a Sentinel set do, finds its changes again.
    if !file.exists() {
        let lines = options.lines(port, folder).join("\n") + "\n";
        std::fs::write(&file, lines).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let mut command = Command::new(options.flavor.program());
    command.arg(&file);
    if role == Role::Sentinel {
        command.arg("--sentinel");
    }
    Program::start(&mut command, &folder.join("server.log"))
}

/// Says that something is not tried here, on the error output itself, which no test harness hides.
pub fn skip(why: &str) {
    use std::io::Write as _;
    // Best effort: whoever closed the error output does not want to know.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}
