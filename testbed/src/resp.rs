//! As much of the protocol of Redis as a test needs: one command, one reply, over TCP or a unix socket.
//!
//! This client waits, never resends and never reconnects: a test wants to know what was answered, not that somebody
//! took care of it. It shares no code with the store that it helps to test.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// How long a reply may take.
const REPLY_LIMIT: Duration = Duration::from_secs(30);

/// The largest reply, and the most elements of one array: what is above is not a reply but a mistake.
const REPLY_LEN_MAX: usize = 1 << 30;

/// What the server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A status, such as `OK`.
    Status(String),
    /// An error, as the server worded it.
    Error(String),
    /// A number.
    Integer(i64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Several replies.
    Array(Vec<Reply>),
    /// Nothing.
    Nil,
}

impl Reply {
    /// The bytes, the status or the number as text; nothing for what is none of these.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Reply::Status(text) | Reply::Error(text) => text.clone(),
            Reply::Integer(number) => number.to_string(),
            Reply::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Reply::Array(_) | Reply::Nil => String::new(),
        }
    }

    /// The number, also when it came as text.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self {
            Reply::Integer(number) => Some(*number),
            other => other.text().parse().ok(),
        }
    }

    /// The elements of an array as texts; none for what is no array.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        match self {
            Reply::Array(replies) => replies.iter().map(Reply::text).collect(),
            _ => Vec::new(),
        }
    }
}

trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// A connection to a server.
pub struct Link {
    stream: BufReader<Box<dyn Stream>>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Link {
    /// Connects to a port of the loopback address.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn tcp(port: u16) -> Result<Link> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, REPLY_LIMIT);
        let stream = stream.with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_LIMIT))?;
        Ok(Link { stream: BufReader::new(Box::new(stream)) })
    }

    /// Connects to a unix socket.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn unix(path: &Path) -> Result<Link> {
        let stream = UnixStream::connect(path);
        let stream = stream.with_context(|| format!("cannot connect to {}", path.display()))?;
        stream.set_read_timeout(Some(REPLY_LIMIT))?;
        Ok(Link { stream: BufReader::new(Box::new(stream)) })
    }

    /// Sends a command and waits for its reply. An error of the server is a reply too.
    ///
    /// # Errors
    /// When the connection breaks, or the reply is none.
    pub fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            command.extend(format!("${}\r\n", word.len()).into_bytes());
            command.extend(word);
            command.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&command).context("cannot send the command")?;
        self.reply()
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// As [`Link::ask`], and when the server answers an error.
    pub fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply> {
        match self.ask(words)? {
            Reply::Error(error) => {
                let shown: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word.as_ref())).collect();
                bail!("`{}` was answered with: {error}", shown.join(" "))
            }
            reply => Ok(reply),
        }
    }

    fn reply(&mut self) -> Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).context("an empty reply")?;
        Ok(match kind {
            "+" => Reply::Status(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(rest.parse().with_context(|| format!("{rest:?} is no number"))?),
            "$" => match length(rest)? {
                None => Reply::Nil,
                Some(len) => Reply::Bytes(self.bytes(len)?),
            },
            "*" => match length(rest)? {
                None => Reply::Nil,
                Some(len) => Reply::Array((0..len).map(|_| self.reply()).collect::<Result<_>>()?),
            },
            _ => bail!("no reply begins with {kind:?}"),
        })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).context("cannot read the reply")?;
        let line = line.strip_suffix("\r\n");
        Ok(line.context("the connection ended before the reply did")?.to_owned())
    }

    fn bytes(&mut self, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len + 2];
        self.stream.read_exact(&mut bytes).context("the connection ended within a reply")?;
        bytes.truncate(len);
        Ok(bytes)
    }
}

/// The length in front of bytes or an array; `None` stands for nil.
fn length(text: &str) -> Result<Option<usize>> {
    let number: i64 = text.parse().with_context(|| format!("{text:?} is no length"))?;
    let len = usize::try_from(number).ok();
    anyhow::ensure!(len.is_none_or(|len| len <= REPLY_LEN_MAX), "a reply of {number} bytes or elements");
    Ok(len)
}
