//! Who is asking, and what they may do.
//!
//! Four modes: nobody is asked (only on this machine's own addresses), a name and a password (argon2id hashes), a token,
//! or a header set by a proxy in front that is trusted by its address. There are two roles: who may view, and who may
//! act as well. Secrets are compared in constant time, never printed, and a guesser is slowed down by address and name.

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
use tokio::sync::Semaphore;

/// Wrong answers that an address may give in a minute for one name.
const FAILURES_MAX: u32 = 20;
/// Wrong answers that an address may give in a minute for all names together: whoever guesses names is slowed as well.
const ADDRESS_FAILURES_MAX: u32 = 200;
const FAILURE_WINDOW: Duration = Duration::from_secs(60);
/// Guessers that are remembered; beyond, the record starts anew.
const GUESSERS_MAX: usize = 10_000;
/// The longest name, in bytes: names of guessers are kept for a while.
const NAME_LEN_MAX: usize = 256;
/// Passwords hashed at a time: each takes 19 MiB and tens of milliseconds, and jobs need the machine as well.
const HASHES_MAX: usize = 2;

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

/// Where a request comes from; put into it by [`crate::serve`]. A program that mounts the dashboard puts it in itself,
/// or serves with axum's `ConnectInfo<SocketAddr>`: without either, nobody is believed to be a proxy, and all guessers
/// count as one.
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

/// Who gives wrong answers: an address, and the name given, or `None` for all names together.
type Guesser = (Option<IpAddr>, Option<String>);

/// Tells who is asking.
#[derive(Debug)]
pub(crate) struct Gate {
    auth: Auth,
    failures: Mutex<HashMap<Guesser, (Instant, u32)>>,
    /// Passwords found right before, by user: hashing is slow on purpose.
    verified: Mutex<HashMap<String, Secret>>,
    hashes: Semaphore,
}

impl Gate {
    pub(crate) fn new(auth: Auth) -> Gate {
        Gate { auth, failures: Mutex::default(), verified: Mutex::default(), hashes: Semaphore::new(HASHES_MAX) }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.auth, Auth::None)
    }

    /// What a browser is told to ask for.
    pub(crate) fn challenge(&self) -> Option<&'static str> {
        match self.auth {
            Auth::Basic(_) => Some(r#"Basic realm="windlass", charset="UTF-8""#),
            Auth::Bearer(_) => Some(r#"Bearer realm="windlass""#),
            Auth::None | Auth::Forward { .. } => None,
        }
    }

    /// Who sends these headers. What is known to be right is let through before guesses are counted: nobody can lock
    /// others out who share an address, as behind a proxy.
    pub(crate) async fn who(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<Identity, Denied> {
        match &self.auth {
            Auth::None => Ok(Identity { name: None, role: Role::Act, is_ambient: true }),
            Auth::Basic(users) => self.basic(users, basic_credentials(headers), peer).await,
            Auth::Bearer(tokens) => self.bearer(tokens, credentials(headers, "Bearer"), peer),
            Auth::Forward { header, proxies, actors } => {
                let is_proxy = |peer: IpAddr| proxies.iter().any(|proxy| proxy.to_canonical() == peer.to_canonical());
                let is_believed = peer.is_some_and(is_proxy);
                is_believed.then(|| forwarded(headers, header, actors.as_deref())).flatten().ok_or(Denied::Unknown)
            }
        }
    }

    // 1. Is it remembered?  2. Has there been too much guessing?  3. Hash, away from the threads that serve.  4. Remember.
    async fn basic(
        &self,
        users: &[User],
        given: Option<(String, String)>,
        peer: Option<IpAddr>,
    ) -> Result<Identity, Denied> {
        let Some((name, password)) = given else { return Err(Denied::Unknown) };
        let user = users.iter().find(|user| user.name == name);
        let identity = |user: &User| Identity { name: Some(user.name.clone()), role: user.role, is_ambient: true };
        let is_remembered = lock(&self.verified).get(&name).is_some_and(|known| known.is(&password));
        if let Some(user) = user.filter(|_| is_remembered) {
            return Ok(identity(user));
        }
        if self.is_slowed(peer, Some(&name)) {
            return Err(Denied::TooMany);
        }
        // Somebody unknown takes as long as somebody known.
        let hash = user.or_else(|| users.first()).map(|user| user.hash.clone());
        let is_right = match hash {
            Some(hash) => self.is_password(hash, password.clone()).await,
            None => false,
        };
        let Some(user) = user.filter(|_| is_right) else {
            self.note_failure(peer, Some(name));
            return Err(Denied::Unknown);
        };
        lock(&self.verified).insert(user.name.clone(), Secret::new(password));
        Ok(identity(user))
    }

    async fn is_password(&self, hash: Secret, password: String) -> bool {
        let Ok(_turn) = self.hashes.acquire().await else { return false };
        // A panic of the hash is a wrong password.
        tokio::task::spawn_blocking(move || is_password(&hash, &password)).await.unwrap_or(false)
    }

    fn bearer(&self, tokens: &[Token], given: Option<&str>, peer: Option<IpAddr>) -> Result<Identity, Denied> {
        let given = given.ok_or(Denied::Unknown)?;
        if let Some(identity) = bearer(tokens, given) {
            return Ok(identity);
        }
        if self.is_slowed(peer, None) {
            return Err(Denied::TooMany);
        }
        self.note_failure(peer, None);
        Err(Denied::Unknown)
    }

    fn is_slowed(&self, peer: Option<IpAddr>, name: Option<&str>) -> bool {
        let failures = lock(&self.failures);
        let is_beyond = |name: Option<&str>, most: u32| {
            let known = failures.get(&(peer, name.map(str::to_owned)));
            known.is_some_and(|(since, count)| *count >= most && since.elapsed() < FAILURE_WINDOW)
        };
        match name {
            Some(name) => is_beyond(Some(name), FAILURES_MAX) || is_beyond(None, ADDRESS_FAILURES_MAX),
            None => is_beyond(None, FAILURES_MAX),
        }
    }

    fn note_failure(&self, peer: Option<IpAddr>, name: Option<String>) {
        let mut failures = lock(&self.failures);
        if failures.len() >= GUESSERS_MAX {
            failures.clear();
        }
        let mut note = |guesser: Guesser| {
            let (since, count) = failures.entry(guesser).or_insert_with(|| (Instant::now(), 0));
            if since.elapsed() >= FAILURE_WINDOW {
                (*since, *count) = (Instant::now(), 0);
            }
            *count += 1;
        };
        if name.is_some() {
            note((peer, name));
        }
        note((peer, None));
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

/// A name and a password; none when they are not well formed. A name that is too long is nobody's.
fn basic_credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let decoded = String::from_utf8(STANDARD.decode(credentials(headers, "Basic")?).ok()?).ok()?;
    let (name, password) = decoded.split_once(':')?;
    (name.len() <= NAME_LEN_MAX).then(|| (name.to_owned(), password.to_owned()))
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
