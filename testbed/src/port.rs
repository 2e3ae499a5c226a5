//! Ports that stay ours while a server on them is down.
//!
//! A port that the system picks is from the range of outgoing connections, and so somebody's connection may take it
//! while our server is killed and not yet started again. These ports are from below that range, and each is held by a
//! locked file, so that no other test bed on this machine picks it either. The lock ends with the process.

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

/// Above the well known ports, below those that Linux, BSD and macOS use for outgoing connections.
const FIRST: u16 = 12_000;
const COUNT: u16 = 16_000;

/// A port of the loopback address that nobody else uses for as long as this value lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Finds one.
    ///
    /// # Errors
    /// When the locks cannot be written, or no port is free.
    pub fn reserve() -> Result<Port> {
        let folder = folder()?;
        let start = RandomState::new().build_hasher().finish() % u64::from(COUNT);
        for step in 0..COUNT {
            let offset = (start + u64::from(step)) % u64::from(COUNT);
            let number = FIRST + u16::try_from(offset).unwrap_or_default();
            let path = folder.join(number.to_string());
            let lock = File::options().create(true).append(true).open(&path);
            let lock = lock.with_context(|| format!("cannot write the lock of a port, {}", path.display()))?;
            // Held by another test bed, or used by somebody who knows no locks: the next one.
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Port { number, _lock: lock });
            }
        }
        bail!("no free port from {FIRST} to {}", FIRST + COUNT - 1)
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// Where the locks are: a folder for each user, because another's files cannot be locked.
fn folder() -> Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let folder = std::env::temp_dir().join(format!("windlass-testbed-ports-{user}"));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    Ok(folder)
}
