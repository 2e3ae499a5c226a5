//! Where jobs may be posted to.
//!
//! A place is a host (`api.test`, `api.test:8080`), which allows every path there, or the beginning of a URL
//! (`https://api.test/hooks`), which allows that scheme, host and port, and the paths below. A host without a port
//! means the usual port of the scheme. Addresses are compared as they are written: what a place's name stands for is
//! looked at when it is connected to (`connect.rs`).

use hyper::Uri;

/// The allow-list of this server.
#[derive(Debug, Clone)]
pub(super) struct Places(Vec<Place>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// Any, when there is none.
    scheme: Option<String>,
    host: String,
    /// The scheme's usual one, when there is none.
    port: Option<u16>,
    /// Ends without a slash: empty for every path.
    path: String,
    text: String,
}

impl Places {
    /// Reads the list.
    ///
    /// # Errors
    /// The entry that is no place, and why.
    pub(super) fn parse(listed: &[String]) -> Result<Places, String> {
        listed.iter().map(|text| Place::parse(text)).collect::<Result<_, _>>().map(Places)
    }

    /// Whether jobs may be posted there.
    ///
    /// # Errors
    /// Why not, with what is allowed.
    pub(super) fn admit(&self, uri: &Uri) -> Result<(), String> {
        if self.0.iter().any(|place| place.has(uri)) {
            return Ok(());
        }
        let texts: Vec<&str> = self.0.iter().map(|place| place.text.as_str()).collect();
        Err(format!("address {uri} is not allowed here; allowed are {}", texts.join(", ")))
    }

    /// Whether some place may be reached by TLS only.
    pub(super) fn need_tls(&self) -> bool {
        self.0.iter().any(|place| place.scheme.as_deref() == Some("https"))
    }
}

impl Place {
    fn parse(text: &str) -> Result<Place, String> {
        let has_scheme = text.contains("://");
        let full = if has_scheme { text.to_owned() } else { format!("http://{text}") };
        let uri =
            parse_url(&full).map_err(|why| format!("{text:?} is neither a host nor the beginning of a URL: {why}"))?;
        if !has_scheme && !matches!(uri.path(), "" | "/") {
            return Err(format!("{text:?} has a path and no scheme: write http://{text} or https://{text}"));
        }
        if uri.query().is_some() {
            return Err(format!("{text:?} has a query: only the path before it can be allowed"));
        }
        Ok(Place {
            scheme: uri.scheme_str().filter(|_| has_scheme).map(str::to_ascii_lowercase),
            host: host(&uri),
            port: uri.port_u16(),
            path: uri.path().trim_end_matches('/').to_owned(),
            text: text.to_owned(),
        })
    }

    fn has(&self, uri: &Uri) -> bool {
        let scheme = uri.scheme_str().unwrap_or_default();
        let below = uri.path().strip_prefix(&self.path);
        self.scheme.as_deref().is_none_or(|only| only.eq_ignore_ascii_case(scheme))
            && self.host == host(uri)
            && port(self.port, scheme) == port(uri.port_u16(), scheme)
            && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

fn port(port: Option<u16>, scheme: &str) -> u16 {
    port.unwrap_or(if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 })
}

/// In small letters, without the dot that may end it.
fn host(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// Reads the address of an `http` job, and sees to it that its path means what it says.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse_url(text: &str) -> Result<Uri, String> {
    let uri: Uri = text.parse().map_err(|error| format!("{text:?} is no URL with http:// or https://: {error}"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || host(&uri).is_empty() {
        return Err(format!("{text:?} must begin with http:// or https:// and a host"));
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err("a URL must not have a user or a password in it".to_owned());
    }
    // `host:` and `host:99999` have a port that cannot be read.
    let after_host = authority.rsplit(']').next().unwrap_or_default();
    if after_host.contains(':') && uri.port_u16().is_none_or(|port| port == 0) {
        return Err(format!("{text:?} has a port that is none"));
    }
    if uri.path().split('/').any(is_devious) {
        return Err(format!("the path of {text:?} climbs, or hides a slash"));
    }
    Ok(uri)
}

/// Whether a part of a path means another path, to some servers at least.
fn is_devious(part: &str) -> bool {
    let part = decoded(part);
    part == b"." || part == b".." || part.iter().any(|byte| matches!(byte, b'/' | b'\\' | 0..0x20 | 0x7f))
}

/// With `%2e` and its like as what they stand for, also when they are written so twice.
fn decoded(part: &str) -> Vec<u8> {
    let mut bytes = part.as_bytes().to_vec();
    loop {
        let next = decoded_once(&bytes);
        if next.len() == bytes.len() {
            return bytes;
        }
        bytes = next;
    }
}

fn decoded_once(bytes: &[u8]) -> Vec<u8> {
    let (mut decoded, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| first == b'%').and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                rest = &after[2..];
            }
            None => {
                decoded.push(first);
                rest = after;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_admitted(place: &str, url: &str) -> bool {
        let places = Places::parse(&[place.to_owned()]).unwrap();
        parse_url(url).is_ok_and(|uri| places.admit(&uri).is_ok())
    }

    #[test]
    fn a_host_allows_every_path_at_its_usual_ports() {
        for url in ["http://api.test", "https://API.test/x?y=1", "http://api.test:80/", "http://api.test./x"] {
            assert!(is_admitted("api.test", url), "{url}");
        }
        for url in [
            "http://api.test:8080/",
            "http://api.test:443/",
            "http://xapi.test/",
            "http://api.test.evil.test/",
            "http://api.test@evil.test/",
            "http://evil.test/?api.test",
            "ftp://api.test/",
            "//api.test/",
            "api.test",
        ] {
            assert!(!is_admitted("api.test", url), "{url}");
        }
        assert!(is_admitted("api.test:8080", "https://api.test:8080/"));
        assert!(is_admitted("[::1]:8080", "http://[::1]:8080/x"));
        assert!(!is_admitted("127.0.0.1", "http://2130706433/"));
    }

    #[test]
    fn the_beginning_of_a_url_allows_what_is_below_it() {
        let place = "https://api.test/hooks";
        for url in [
            "https://api.test/hooks",
            "https://api.test/hooks/",
            "https://api.test/hooks/a?b",
            "https://api.test:443/hooks/a",
        ] {
            assert!(is_admitted(place, url), "{url}");
        }
        for url in [
            "http://api.test/hooks",
            "https://api.test/",
            "https://api.test/hooksx",
            "https://api.test/Hooks",
            "https://api.test/hooks/../admin",
            "https://api.test/hooks/%2e%2e/admin",
            "https://api.test/hooks/.%2E/admin",
            "https://api.test/hooks/%252e%252e/admin",
            "https://api.test/hooks/..%2fadmin",
            "https://api.test/hooks/..%5cadmin",
        ] {
            assert!(!is_admitted(place, url), "{url}");
        }
        assert!(is_admitted("http://api.test/hooks/", "http://api.test/hooks"));
        assert!(is_admitted("http://api.test/", "http://api.test/anything"));
    }

    #[test]
    fn a_place_that_is_none_is_refused_with_the_reason() {
        for (text, why) in [
            ("api.test/hooks", "http://api.test/hooks"),
            ("ftp://api.test", "http://"),
            ("http://user:word@api.test", "password"),
            ("http://api.test/a?b", "query"),
            ("http://api.test:99999", "port"),
            ("http://", "URL"),
            ("a b", "URL"),
        ] {
            let error = Places::parse(&[text.to_owned()]).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
