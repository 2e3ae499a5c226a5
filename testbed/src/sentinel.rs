//! A master, its replica, and the sentinels that watch them: for what happens when the master changes.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::redis::{RedisOptions, RedisServer, Role};
use crate::resp::{Link, Reply};
use crate::wait;

/// What the sentinels call the master.
pub const MASTER_NAME: &str = "windlass";

/// How long a server is silent before a sentinel calls it down. Sentinels ask every second, and with a shorter time,
/// half of which passes before the first question, they were seen to depose every master that they had just made.
const DOWN_AFTER: Duration = Duration::from_secs(2);

/// Two servers and some sentinels. All are ended when it is dropped.
#[derive(Debug)]
pub struct SentinelSet {
    servers: [RedisServer; 2],
    sentinels: Vec<RedisServer>,
}

impl SentinelSet {
    /// Starts a master and a replica with `options`, and `count` sentinels of which more than half must agree; waits
    /// until the replica follows and every sentinel knows all the others.
    ///
    /// # Errors
    /// When one of them does not start, or they do not find each other.
    pub fn start(count: usize, options: &RedisOptions) -> Result<SentinelSet> {
        ensure!(count >= 1, "a sentinel set of no sentinels");
        // A master would wait five seconds for further replicas before it sends its data to the first.
        let options = &options.clone().with("repl-diskless-sync-delay", "0");
        let master = RedisServer::start_with(options.clone())?;
        let follow = format!("127.0.0.1 {}", master.port());
        let replica = RedisServer::start_with(options.clone().with("replicaof", &follow))?;
        let follows = || Ok((replica.info_text("master_link_status")?.as_deref() == Some("up")).then_some(()));
        wait::until("the replica to follow its master", wait::LIMIT, follows)?;
        let sentinels = (0..count).map(|_| start_sentinel(&master, count / 2 + 1, options)).collect::<Result<_>>()?;
        let set = SentinelSet { servers: [master, replica], sentinels };
        set.until_known()?;
        Ok(set)
    }

    /// Where the sentinels listen.
    #[must_use]
    pub fn sentinel_ports(&self) -> Vec<u16> {
        self.sentinels.iter().map(RedisServer::port).collect()
    }

    /// `redis+sentinel://host:port,…/name/0`.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.sentinel_ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/{MASTER_NAME}/0", hosts.join(","))
    }

    /// The port of the master, as the first sentinel has it.
    ///
    /// # Errors
    /// When the sentinel does not answer.
    pub fn master_port(&self) -> Result<u16> {
        master_by(&self.sentinels[0])
    }

    /// The server that the sentinels call the master.
    ///
    /// # Errors
    /// When the sentinel does not answer, or names a server that is not of this set.
    pub fn master(&mut self) -> Result<&mut RedisServer> {
        let port = self.master_port()?;
        let server = self.servers.iter_mut().find(|server| server.port() == port);
        server.with_context(|| format!("the sentinels name a master at port {port}, which is none of ours"))
    }

    /// The server that they do not.
    ///
    /// # Errors
    /// As [`SentinelSet::master`].
    pub fn replica(&mut self) -> Result<&mut RedisServer> {
        let port = self.master_port()?;
        let server = self.servers.iter_mut().find(|server| server.port() != port);
        server.context("a set without a replica")
    }

    /// Has the sentinels change the roles while both servers live, and waits until they have.
    ///
    /// # Errors
    /// When they refuse, or do not come to an end.
    pub fn failover(&mut self) -> Result<()> {
        let old = self.master_port()?;
        // A sentinel that has just seen the replica may not trust it yet.
        wait::until("a failover that the sentinels accept", wait::LIMIT, || {
            let reply = self.sentinels[0].link()?.ask(&["SENTINEL", "FAILOVER", MASTER_NAME])?;
            Ok((reply == Reply::Status("OK".to_owned())).then_some(()))
        })?;
        self.until_master_is_not(old)
    }

    /// Kills the master with `kill -9`, and waits until the sentinels have made the replica the master. Answers the
    /// port of the dead one.
    ///
    /// # Errors
    /// When they do not.
    pub fn kill_master(&mut self) -> Result<u16> {
        let old = self.master_port()?;
        self.master()?.kill9();
        self.until_master_is_not(old)?;
        Ok(old)
    }

    /// Starts the servers again that were killed. The sentinels make a replica of who was a master.
    ///
    /// # Errors
    /// When one of them does not answer.
    pub fn restart_dead(&mut self) -> Result<()> {
        self.servers.iter_mut().filter(|server| server.cli(&["PING"]).is_err()).try_for_each(RedisServer::restart)
    }

    /// Waits until all sentinels name another master than `old`, and that one is a master by its own word.
    ///
    /// # Errors
    /// When they do not.
    pub fn until_master_is_not(&self, old: u16) -> Result<()> {
        wait::until(&format!("another master than the one at port {old}"), wait::LIMIT, || {
            let ports: Vec<u16> = self.sentinels.iter().map(master_by).collect::<Result<_>>()?;
            let is_agreed = ports.iter().all(|port| *port != old && *port == ports[0]);
            Ok((is_agreed && role_at(ports[0])? == "master").then_some(()))
        })
    }

    /// Every sentinel has found the replica and the other sentinels, and they could decide.
    fn until_known(&self) -> Result<()> {
        let others = (self.sentinels.len() - 1).to_string();
        for sentinel in &self.sentinels {
            wait::until("a sentinel to know all the others", wait::LIMIT, || {
                let master = sentinel.cli(&["SENTINEL", "MASTER", MASTER_NAME])?.texts();
                let field = |name| master.iter().position(|text| text == name).and_then(|at| master.get(at + 1));
                let is_complete = field("num-slaves").is_some_and(|count| count == "1")
                    && field("num-other-sentinels") == Some(&others)
                    && field("flags").is_some_and(|flags| flags == "master");
                let quorum = sentinel.link()?.ask(&["SENTINEL", "CKQUORUM", MASTER_NAME])?;
                Ok((is_complete && matches!(quorum, Reply::Status(_))).then_some(()))
            })?;
        }
        Ok(())
    }
}

fn start_sentinel(master: &RedisServer, quorum: usize, options: &RedisOptions) -> Result<RedisServer> {
    let timeout = (DOWN_AFTER * 3).as_millis();
    let mut watching = RedisOptions { flavor: options.flavor, ..RedisOptions::default() }
        .with("sentinel monitor", &format!("{MASTER_NAME} 127.0.0.1 {} {quorum}", master.port()))
        .with("sentinel down-after-milliseconds", &format!("{MASTER_NAME} {}", DOWN_AFTER.as_millis()))
        .with("sentinel failover-timeout", &format!("{MASTER_NAME} {timeout}"));
    if let Some(password) = &options.password {
        watching = watching.with("sentinel auth-pass", &format!("{MASTER_NAME} {password}"));
    }
    RedisServer::start_as(Role::Sentinel, watching)
}

fn master_by(sentinel: &RedisServer) -> Result<u16> {
    let address = sentinel.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER_NAME])?.texts();
    let port = address.get(1).context("the sentinel knows no master")?;
    port.parse().with_context(|| format!("the sentinel names the port {port:?}"))
}

/// What the server at `port` says it is; nothing while it cannot be asked.
fn role_at(port: u16) -> Result<String> {
    let Ok(mut link) = Link::tcp(port) else { return Ok(String::new()) };
    let role = link.ask(&["ROLE"])?;
    Ok(match role {
        // With a password it does not say; the sentinels' word must do.
        Reply::Error(error) if error.starts_with("NOAUTH") => "master".to_owned(),
        role => role.texts().first().cloned().unwrap_or_default(),
    })
}
