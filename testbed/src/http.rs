//! As much of HTTP as a test needs to look at a page and press a button on it: one request, one answer.
//!
//! Cookies are kept from page to page, as a browser does, because a button of Sidekiq's page works only in the session
//! that it was shown in.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// What was answered.
#[derive(Clone, Debug)]
pub struct Page {
    /// The status, such as 200.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
}

impl Page {
    /// The values of a header, whose name is given in lower case.
    pub fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The value of the first `<input>` with that name.
    #[must_use]
    pub fn input(&self, name: &str) -> Option<&str> {
        let tag = self.body.split("<input").skip(1).find(|tag| attribute(tag, "name") == Some(name))?;
        attribute(tag, "value")
    }
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let tag = tag.split('>').next()?;
    let mark = if tag.contains(&format!("{name}='")) { '\'' } else { '"' };
    tag.split(&format!("{name}={mark}")).nth(1)?.split(mark).next()
}

/// Someone who looks at the pages of one server.
#[derive(Debug)]
pub struct Browser {
    port: u16,
    cookies: Vec<(String, String)>,
}

impl Browser {
    /// For the server at a port of the loopback address.
    #[must_use]
    pub fn at(port: u16) -> Browser {
        Browser { port, cookies: Vec::new() }
    }

    /// Asks for a page.
    ///
    /// # Errors
    /// When nobody answers, or the answer is no HTTP.
    pub fn get(&mut self, path: &str) -> Result<Page> {
        self.request("GET", path, "")
    }

    /// Sends a form, whose names and values need no escaping but what is done here.
    ///
    /// # Errors
    /// As [`Browser::get`].
    pub fn post(&mut self, path: &str, form: &[(&str, &str)]) -> Result<Page> {
        let pairs: Vec<String> =
            form.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
        self.request("POST", path, &pairs.join("&"))
    }

    fn request(&mut self, method: &str, path: &str, body: &str) -> Result<Page> {
        let what = || format!("cannot {method} {path} at port {}", self.port);
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).with_context(what)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        // 1.0: the answer comes whole, and ends with the connection.
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\nCookie: {}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            cookies.join("; "),
            body.len(),
        );
        stream.write_all(request.as_bytes()).with_context(what)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).with_context(what)?;
        let page = parse(&String::from_utf8_lossy(&answer)).with_context(what)?;
        self.keep_cookies(&page);
        Ok(page)
    }

    fn keep_cookies(&mut self, page: &Page) {
        for cookie in page.header("set-cookie") {
            let Some((name, value)) = cookie.split(';').next().and_then(|pair| pair.split_once('=')) else { continue };
            self.cookies.retain(|(known, _)| known != name);
            self.cookies.push((name.trim().to_owned(), value.to_owned()));
        }
    }
}

fn parse(answer: &str) -> Result<Page> {
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no end of its head")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|word| word.parse().ok());
    let header = |line: &str| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
    Ok(Page {
        status: status.context("the answer has no status")?,
        headers: lines.filter_map(header).collect(),
        body: body.to_owned(),
    })
}

fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
