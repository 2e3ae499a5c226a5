//! Who is asking, and what they may do.
//!
//! Four modes: nobody is asked (only on this machine's own addresses), a name and a password (argon2id hashes), a token,
//! or a header set by a proxy in front that is trusted by its address. There are two roles: who may view, and who may
//! act as well. Secrets are compared in constant time, never printed, and a guesser is slowed down by address.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use argon2::{Argon2, PasswordHash, PasswordVerifier};
use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

/// Wrong answers that an address may give in a minute.
const FAILURES_MAX: u32 = 20;
const FAILURE_WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are remembered; beyond, the record starts anew.
const ADDRESSES_MAX: usize = 10_000;

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look.
    View,
    /// Look, and change jobs, queues and processes.
    Act,
}

/// Text that is not printed.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes a text that nobody should see.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Somebody with a name and a password.
#[derive(Debug, Clone)]
pub struct User {
    /// The name.
    pub name: String,
    /// The password's hash in PHC form: `$argon2id$v=19$…`.
    pub hash: Secret,
    /// What they may do.
    pub role: Role,
}

/// A token and what its bearer may do.
#[derive(Debug, Clone)]
pub struct Token {
    /// The token.
    pub token: Secret,
    /// What its bearer may do.
    pub role: Role,
}

/// How those who ask are known.
#[derive(Debug, Clone, Default)]
pub enum Auth {
    /// Not at all: everybody may act. Only requests to this machine's loopback names are answered.
    #[default]
    None,
    /// By name and password.
    Basic(Vec<User>),
    /// By a token: `Authorization: Bearer …`.
    Bearer(Vec<Token>),
    /// By a header that a proxy sets, believed only from these addresses.
    Forward {
        /// The header with the name, such as `x-forwarded-user`.
        header: String,
        /// The proxy's addresses.
        proxies: Vec<IpAddr>,
        /// The names that may act; everybody else who has one may view. `None`: all may act.
        actors: Option<Vec<String>>,
    },
}

/// Where a request comes from; put into it by [`crate::serve`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer(pub IpAddr);

/// Somebody who is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name, if there is one.
    pub name: Option<String>,
    /// What they may do.
    pub role: Role,
    /// Whether a browser could have sent the credentials by itself. Not so a token.
    pub(crate) is_ambient: bool,
}

/// Why somebody is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// No or wrong credentials.
    Unknown,
    /// Too many wrong ones.
    TooMany,
}

/// Tells who is asking.
#[derive(Debug)]
pub(crate) struct Gate {
    auth: Auth,
    failures: Mutex<HashMap<Option<IpAddr>, (Instant, u32)>>,
    /// Passwords found right before, by user: hashing is slow on purpose.
    verified: Mutex<HashMap<String, Secret>>,
}

impl Gate {
    pub(crate) fn new(auth: Auth) -> Gate {
        Gate { auth, failures: Mutex::default(), verified: Mutex::default() }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.auth, Auth::None)
    }

    /// What a browser is told to ask for.
    pub(crate) fn challenge(&self) -> &'static str {
        match self.auth {
            Auth::Basic(_) => r#"Basic realm="windlass", charset="UTF-8""#,
            _ => r#"Bearer realm="windlass""#,
        }
    }

    pub(crate) fn who(&self, headers: &HeaderMap, peer: Option<Peer>) -> Result<Identity, Denied> {
        let address = peer.map(|peer| peer.0);
        if self.is_slowed(address) {
            return Err(Denied::TooMany);
        }
        let known = match &self.auth {
            Auth::None => Some(Identity { name: None, role: Role::Act, is_ambient: true }),
            Auth::Basic(users) => credentials(headers, "Basic").and_then(|given| self.basic(users, given)),
            Auth::Bearer(tokens) => credentials(headers, "Bearer").and_then(|given| bearer(tokens, given)),
            Auth::Forward { header, proxies, actors } => {
                let is_believed = address.is_some_and(|address| proxies.contains(&address));
                is_believed.then(|| forwarded(headers, header, actors.as_deref())).flatten()
            }
        };
        if known.is_none() && headers.contains_key(header::AUTHORIZATION) {
            self.note_failure(address);
        }
        known.ok_or(Denied::Unknown)
    }

    fn basic(&self, users: &[User], given: &str) -> Option<Identity> {
        let decoded = String::from_utf8(STANDARD.decode(given).ok()?).ok()?;
        let (name, password) = decoded.split_once(':')?;
        let user = users.iter().find(|user| user.name == name);
        // Somebody unknown takes as long as somebody known.
        let hash = user.or_else(|| users.first())?.hash.clone();
        let is_remembered = lock(&self.verified).get(name).is_some_and(|known| known.is(password));
        let is_right = is_remembered || is_password(&hash, password);
        let user = user.filter(|_| is_right)?;
        lock(&self.verified).insert(user.name.clone(), Secret::new(password));
        Some(Identity { name: Some(user.name.clone()), role: user.role, is_ambient: true })
    }

    fn is_slowed(&self, address: Option<IpAddr>) -> bool {
        let failures = lock(&self.failures);
        failures.get(&address).is_some_and(|(since, count)| *count >= FAILURES_MAX && since.elapsed() < FAILURE_WINDOW)
    }

    fn note_failure(&self, address: Option<IpAddr>) {
        let mut failures = lock(&self.failures);
        if failures.len() >= ADDRESSES_MAX {
            failures.clear();
        }
        let (since, count) = failures.entry(address).or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() >= FAILURE_WINDOW {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The credentials of one scheme; none when the header comes twice.
fn credentials<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (given_scheme, given) = value.to_str().ok()?.split_once(' ')?;
    given_scheme.eq_ignore_ascii_case(scheme).then_some(given.trim())
}

fn is_password(hash: &Secret, password: &str) -> bool {
    let parsed = PasswordHash::new(&hash.0);
    parsed.is_ok_and(|parsed| Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok())
}

fn bearer(tokens: &[Token], given: &str) -> Option<Identity> {
    // All are compared, whichever it is.
    let found = tokens.iter().filter(|token| token.token.is(given)).map(|token| token.role).max()?;
    Some(Identity { name: None, role: found, is_ambient: false })
}

fn forwarded(headers: &HeaderMap, header: &str, actors: Option<&[String]>) -> Option<Identity> {
    let mut values = headers.get_all(header).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let name = value.to_str().ok().filter(|name| !name.is_empty())?;
    let may_act = actors.is_none_or(|actors| actors.iter().any(|actor| actor == name));
    let role = if may_act { Role::Act } else { Role::View };
    Some(Identity { name: Some(name.to_owned()), role, is_ambient: true })
}
