//! What a Redis URL says.
//!
//! `redis://[user:password@]host[:port][/db]`, `rediss://` for the same encrypted, `unix:///path`, and
//! `redis+sentinel://host:port,host:port/master[/db]`; each with settings behind `?`: `namespace`, `durability`,
//! `dialect`, and `db` for a socket. Several hosts, separated by commas, may stand where one may: the nodes of a cluster
//! that are asked first. User and password may be percent-encoded.

use std::fmt;
use std::path::PathBuf;

use crate::store::redis::envelope::Dialect;

/// The port of a server whose URL names none.
const PORT: u16 = 6_379;
/// The port of a sentinel whose URL names none.
const SENTINEL_PORT: u16 = 26_379;

/// Where a server is, and how it is spoken to.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) place: Place,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) db: i64,
    pub(super) is_encrypted: bool,
    pub(super) namespace: Option<String>,
    pub(super) durability: Durability,
    pub(super) dialect: Dialect,
}

/// Where to knock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A server, or some nodes of one cluster.
    Hosts(Vec<(String, u16)>),
    /// A socket in the file system.
    Socket(PathBuf),
    /// Sentinels, which know where the master of that name is.
    Sentinels(Vec<(String, u16)>, String),
}

/// What an accepted job has survived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Durability {
    /// The server has it.
    #[default]
    Accepted,
    /// The server's append-only file has it, on the disk.
    Logged,
    /// So many replicas have it.
    Replicated(u8),
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_url())
    }
}

impl Address {
    /// Reads a URL. The error says what was found.
    pub(super) fn parse(url: &str) -> Result<Address, String> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (scheme, rest) = base.split_once("://").ok_or_else(|| "no ://".to_owned())?;
        let mut address = Address {
            place: Place::Hosts(Vec::new()),
            user: None,
            password: None,
            db: 0,
            is_encrypted: scheme == "rediss",
            namespace: None,
            durability: Durability::Accepted,
            dialect: Dialect::Eight,
        };
        match scheme {
            "redis" | "rediss" => {
                let (hosts, path) = address.take_login(rest)?;
                address.place = Place::Hosts(parse_hosts(hosts, PORT)?);
                address.db = parse_db(path)?;
            }
            "unix" | "redis+unix" => address.place = parse_socket(rest)?,
            "redis+sentinel" => {
                let (hosts, path) = address.take_login(rest)?;
                let (master, db) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err("no name of a master behind the sentinels".to_owned());
                }
                address.place = Place::Sentinels(parse_hosts(hosts, SENTINEL_PORT)?, master.to_owned());
                address.db = parse_db(db)?;
            }
            _ => return Err(format!("the scheme {scheme:?}")),
        }
        query.split('&').filter(|pair| !pair.is_empty()).try_for_each(|pair| address.set(pair))?;
        Ok(address)
    }

    /// Takes user and password off, and splits hosts from what follows them.
    fn take_login<'a>(&mut self, rest: &'a str) -> Result<(&'a str, &'a str), String> {
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        if let Some(login) = login {
            let (user, password) = login.split_once(':').unwrap_or(("", login));
            self.user = Some(decoded(user)?).filter(|user| !user.is_empty());
            self.password = Some(decoded(password)?);
        }
        Ok(place.split_once('/').unwrap_or((place, "")))
    }

    fn set(&mut self, pair: &str) -> Result<(), String> {
        let (name, value) = pair.split_once('=').ok_or_else(|| format!("the setting {pair:?}"))?;
        match name {
            "namespace" => self.namespace = Some(parse_namespace(&decoded(value)?)?),
            "durability" => self.durability = parse_durability(value)?,
            "dialect" => {
                self.dialect = match value {
                    "6" => Dialect::Six,
                    "7" => Dialect::Seven,
                    "8" => Dialect::Eight,
                    _ => return Err(format!("the dialect {value:?}: known are 6, 7 and 8")),
                }
            }
            "db" => self.db = parse_db(value)?,
            _ => return Err(format!("the setting {name:?}: known are namespace, durability, dialect and db")),
        }
        Ok(())
    }

    /// What stands before every key.
    pub(super) fn prefix(&self) -> String {
        self.namespace.as_ref().map_or_else(String::new, |namespace| format!("{namespace}:"))
    }

    /// Whether all keys share a slot, so that a cluster can hold them.
    pub(super) fn has_one_slot(&self) -> bool {
        let tag = |name: &String| {
            name.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| !tag.is_empty())
        };
        self.namespace.as_ref().and_then(tag).unwrap_or(false)
    }

    /// The URL again, without its secrets.
    pub(super) fn to_url(&self) -> String {
        let login = match (&self.user, &self.password) {
            (Some(user), _) => format!("{user}:***@"),
            (None, Some(_)) => ":***@".to_owned(),
            (None, None) => String::new(),
        };
        let (scheme, place) = match &self.place {
            Place::Hosts(hosts) => {
                (if self.is_encrypted { "rediss" } else { "redis" }, format!("{login}{}/{}", list(hosts), self.db))
            }
            Place::Socket(path) => ("unix", path.display().to_string()),
            Place::Sentinels(hosts, master) => {
                ("redis+sentinel", format!("{login}{}/{master}/{}", list(hosts), self.db))
            }
        };
        let mut settings = Vec::new();
        if let (Place::Socket(_), 1..) = (&self.place, self.db) {
            settings.push(format!("db={}", self.db));
        }
        settings.extend(self.namespace.as_ref().map(|namespace| format!("namespace={namespace}")));
        match self.durability {
            Durability::Accepted => {}
            Durability::Logged => settings.push("durability=logged".to_owned()),
            Durability::Replicated(count) => settings.push(format!("durability=replicated:{count}")),
        }
        if self.dialect != Dialect::Eight {
            settings.push(format!("dialect={}", self.dialect.number()));
        }
        let query = if settings.is_empty() { String::new() } else { format!("?{}", settings.join("&")) };
        format!("{scheme}://{place}{query}")
    }
}

fn list(hosts: &[(String, u16)]) -> String {
    hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect::<Vec<_>>().join(",")
}

fn parse_hosts(text: &str, port: u16) -> Result<Vec<(String, u16)>, String> {
    text.split(',').map(|host| parse_host(host, port)).collect()
}

fn parse_host(text: &str, default: u16) -> Result<(String, u16), String> {
    // An address of version 6 has colons of its own, and stands in brackets.
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().map_err(|_| format!("the port {port:?}"))?,
        None => default,
    };
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    Ok((host.to_owned(), port))
}

fn parse_socket(path: &str) -> Result<Place, String> {
    if path.is_empty() {
        return Err("no path of a socket".to_owned());
    }
    Ok(Place::Socket(PathBuf::from(decoded(path)?)))
}

fn parse_db(text: &str) -> Result<i64, String> {
    let text = text.trim_end_matches('/');
    if text.is_empty() { Ok(0) } else { text.parse().map_err(|_| format!("the database {text:?}: must be a number")) }
}

fn parse_namespace(name: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-.:/{}".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_allowed) {
        return Err(format!("the namespace {name:?}: must be 1 to 64 letters, digits or any of _ - . : / {{ }}"));
    }
    Ok(name.trim_end_matches(':').to_owned())
}

fn parse_durability(text: &str) -> Result<Durability, String> {
    match text.split_once(':') {
        None if text == "accepted" => Ok(Durability::Accepted),
        None if text == "logged" => Ok(Durability::Logged),
        Some(("replicated", count)) => match count.parse() {
            Ok(count @ 1..=16) => Ok(Durability::Replicated(count)),
            _ => Err(format!("{count:?} replicas: must be 1 to 16")),
        },
        _ => Err(format!("the durability {text:?}: known are accepted, logged and replicated:N")),
    }
}

/// A text with `%XX` turned into bytes.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let pair = rest.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        bytes.push(pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or("a % without two digits")?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| "an encoding that is no UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_shown_without_its_secrets() {
        for (url, shown) in [
            ("redis://localhost", "redis://localhost:6379/0"),
            ("redis://:s%40cret@h:1/2?namespace={app}&dialect=7", "redis://:***@h:1/2?namespace={app}&dialect=7"),
            ("redis://ann:x@h,i:2/3", "redis://ann:***@h:6379,i:2/3"),
            ("rediss://[::1]:7/1?durability=logged", "rediss://::1:7/1?durability=logged"),
            ("unix:///run/r.sock?db=4&durability=replicated:2", "unix:///run/r.sock?db=4&durability=replicated:2"),
            ("redis+sentinel://a,b:5/main/1", "redis+sentinel://a:26379,b:5/main/1"),
        ] {
            assert_eq!(Address::parse(url).unwrap().to_url(), shown);
        }
        assert_eq!(Address::parse("redis://:s%40cret@h").unwrap().password.as_deref(), Some("s@cret"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_was_found() {
        for (url, found) in [
            ("redis://h:port", "port"),
            ("redis://h/x", "database"),
            ("redis://h?namespace=", "namespace"),
            ("redis://h?durability=replicated:0", "replicas"),
            ("redis://h?dialect=5", "dialect"),
            ("redis://h?colour=red", "colour"),
            ("redis+sentinel://h", "master"),
            ("unix://", "path"),
            ("redis:h", "://"),
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(error.contains(found), "{url}: {error}");
        }
    }

    #[test]
    fn a_namespace_with_a_tag_keeps_every_key_in_one_slot() {
        assert!(Address::parse("redis://h?namespace={app}").unwrap().has_one_slot());
        assert!(!Address::parse("redis://h?namespace=app").unwrap().has_one_slot());
        assert!(!Address::parse("redis://h").unwrap().has_one_slot());
    }
}
