//! Where the dashboard listens and who may come: flags, then the environment, then `[web]` in `windlass.toml`.
//!
//! ```toml
//! [web]
//! listen = "127.0.0.1:7420"
//! auth = "basic"            # or none, bearer, forward
//! users = "users.txt"       # NAME:view|act:HASH, one a line; a path is seen from this file
//! tokens = "tokens.txt"     # view|act:TOKEN, one a line
//! header = "x-forwarded-user"
//! proxies = ["10.0.0.2"]
//! actors = ["ann"]
//! read_only = false
//! trusted_origins = ["https://jobs.example.com"]
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Deserialize;
use windlass::config::load::FILE_NAME;
use windlass_web::{Auth, Options};

use super::keys::{Keys, tokens, users};
use crate::Common;
use crate::exit::Usage;

/// Where it listens when nothing is said.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7420);
/// The header a proxy sets when nothing is said.
const HEADER: &str = "x-forwarded-user";

/// How those who ask are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Not at all: only on this machine's own addresses
    None,
    /// By name and password
    Basic,
    /// By a token
    Bearer,
    /// By a header that a proxy sets
    Forward,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Flags {
    /// Where to listen [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDRESS", env = "WINDLASS_WEB_LISTEN")]
    listen: Option<SocketAddr>,
    /// How those who ask are known [default: by what else is given, else none, which only a loopback address may have]
    #[arg(long, value_enum, env = "WINDLASS_WEB_AUTH")]
    auth: Option<Mode>,
    /// For basic: a file of NAME:view|act:HASH, one a line; or set WINDLASS_WEB_USERS to such lines
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// For bearer: a file of view|act:TOKEN, one a line; or set WINDLASS_WEB_TOKENS to such lines
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// For forward: the header that holds the name [default: x-forwarded-user]
    #[arg(long, value_name = "NAME")]
    header: Option<String>,
    /// For forward: the address of a proxy whose header is believed; may be given several times
    #[arg(long = "proxy", value_name = "IP")]
    proxies: Option<Vec<IpAddr>>,
    /// For forward: a name that may act; may be given several times [default: all]
    #[arg(long = "actor", value_name = "NAME")]
    actors: Option<Vec<String>>,
    /// Let nobody change anything
    #[arg(long)]
    read_only: bool,
    /// An origin whose pages may act although it is not ours, for a proxy in front; may be given several times
    #[arg(long = "trusted-origin", value_name = "URL")]
    trusted_origins: Option<Vec<String>>,
}

/// What is in force.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) options: Options,
}

/// The section `[web]`, of the whole file or of one environment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Section {
    listen: Option<SocketAddr>,
    auth: Option<Mode>,
    users: Option<PathBuf>,
    tokens: Option<PathBuf>,
    header: Option<String>,
    proxies: Option<Vec<IpAddr>>,
    actors: Option<Vec<String>>,
    read_only: Option<bool>,
    trusted_origins: Option<Vec<String>>,
}

/// As much of the file as is ours; the rest is checked by its own reader.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    web: Section,
    env: BTreeMap<String, Environment>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Environment {
    web: Section,
}

impl Flags {
    /// This address, and nothing else said.
    pub(crate) fn listening(listen: SocketAddr) -> Flags {
        Flags { listen: Some(listen), ..Flags::default() }
    }
}

impl Settings {
    /// Puts them together.
    pub(crate) fn read(common: &Common, flags: &Flags) -> Result<Settings> {
        let flags = Section {
            read_only: flags.read_only.then_some(true),
            listen: flags.listen,
            auth: flags.auth,
            users: flags.users.clone(),
            tokens: flags.tokens.clone(),
            header: flags.header.clone(),
            proxies: flags.proxies.clone(),
            actors: flags.actors.clone(),
            trusted_origins: flags.trusted_origins.clone(),
        };
        flags.or(of_file(common)?).settle(&Keys::of_environment())
    }

    /// For a look while something runs: this machine only, on whatever port is free.
    pub(crate) fn private() -> Settings {
        Settings { listen: SocketAddr::new(LISTEN.ip(), 0), options: Options::default() }
    }
}

fn of_file(common: &Common) -> Result<Section> {
    let path = common.config.as_deref().unwrap_or(Path::new(FILE_NAME));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && common.config.is_none() => String::new(),
        Err(error) => return Err(Usage(format!("{}: cannot be read: {error}", path.display())).into()),
    };
    let mut file: File = toml::from_str(&text).map_err(|error| Usage(format!("{}: {error}", path.display())))?;
    let environment = common.env.as_ref().and_then(|name| file.env.remove(name)).unwrap_or_default();
    Ok(environment.web.or(file.web).seen_from(path.parent().unwrap_or(Path::new(""))))
}

impl Section {
    /// What is not set here is as it is there.
    fn or(self, other: Section) -> Section {
        Section {
            listen: self.listen.or(other.listen),
            auth: self.auth.or(other.auth),
            users: self.users.or(other.users),
            tokens: self.tokens.or(other.tokens),
            header: self.header.or(other.header),
            proxies: self.proxies.or(other.proxies),
            actors: self.actors.or(other.actors),
            read_only: self.read_only.or(other.read_only),
            trusted_origins: self.trusted_origins.or(other.trusted_origins),
        }
    }

    fn seen_from(mut self, folder: &Path) -> Section {
        for path in [&mut self.users, &mut self.tokens].into_iter().flatten() {
            *path = folder.join(&*path);
        }
        self
    }

    fn settle(self, keys: &Keys) -> Result<Settings> {
        let auth = match self.mode(keys)? {
            Mode::None => Auth::None,
            Mode::Basic => Auth::Basic(users(self.users.as_deref(), keys)?),
            Mode::Bearer => Auth::Bearer(tokens(self.tokens.as_deref(), keys)?),
            Mode::Forward => self.forward()?,
        };
        let trusted_origins = self.trusted_origins.unwrap_or_default();
        trusted_origins.iter().try_for_each(|origin| check_origin(origin))?;
        let options =
            Options { auth, is_read_only: self.read_only.unwrap_or(false), trusted_origins, ..Options::default() };
        Ok(Settings { listen: self.listen.unwrap_or(LISTEN), options })
    }

    /// As it is named; else by what is given, so that nobody who sets up users is left without protection.
    fn mode(&self, keys: &Keys) -> Result<Mode> {
        if let Some(mode) = self.auth {
            return Ok(mode);
        }
        let given = [
            (Mode::Basic, self.users.is_some() || keys.users.is_some()),
            (Mode::Bearer, self.tokens.is_some() || keys.tokens.is_some()),
            (Mode::Forward, self.header.is_some() || self.proxies.is_some()),
        ];
        let mut modes = given.into_iter().filter(|(_, is_given)| *is_given).map(|(mode, _)| mode);
        match (modes.next(), modes.next()) {
            (None, _) => Ok(Mode::None),
            (Some(mode), None) => Ok(mode),
            _ => Err(Usage(
                "users, tokens and a proxy are for different ways to be known: name one by --auth".to_owned(),
            )
            .into()),
        }
    }

    fn forward(&self) -> Result<Auth> {
        let proxies = self.proxies.clone().unwrap_or_default();
        if proxies.is_empty() {
            return Err(
                Usage("forward authentication believes a proxy: name its address by --proxy IP".to_owned()).into()
            );
        }
        let header = self.header.clone().unwrap_or_else(|| HEADER.to_owned()).to_ascii_lowercase();
        Ok(Auth::Forward { header, proxies, actors: self.actors.clone() })
    }
}

fn check_origin(origin: &str) -> Result<()> {
    let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    if host.is_some_and(|host| !host.is_empty() && !host.contains('/')) {
        return Ok(());
    }
    Err(Usage(format!("{origin:?} is no origin: write it as https://jobs.example.com, without a path")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> Section {
        toml::from_str::<File>(text).unwrap().web
    }

    fn settle(text: &str) -> Result<Settings> {
        section(text).settle(&Keys::default())
    }

    #[test]
    fn nothing_said_is_this_machine_only_and_nobody_is_asked() {
        let settings = settle("").unwrap();

        assert_eq!(settings.listen, "127.0.0.1:7420".parse().unwrap());
        assert!(matches!(settings.options.auth, Auth::None));
        assert!(!settings.options.is_read_only);
    }

    #[test]
    fn a_flag_wins_over_the_environment_s_section_and_that_over_the_whole_file() {
        let flags = Section { listen: Some("127.0.0.1:1".parse().unwrap()), ..Section::default() };
        let nearer = section("[web]\nlisten = \"127.0.0.1:2\"\nread_only = true");
        let farther = section("[web]\nread_only = false\nactors = [\"ann\"]");

        let all = flags.or(nearer).or(farther);

        assert_eq!(all.listen.unwrap().port(), 1);
        assert_eq!((all.read_only, all.actors.unwrap().len()), (Some(true), 1));
    }

    #[test]
    fn an_unknown_setting_is_refused_with_its_place() {
        let error = toml::from_str::<File>("\n[web]\nlistn = \"127.0.0.1:1\"\n").unwrap_err().to_string();

        assert!(error.contains("line 3") && error.contains("listn") && error.contains("listen"), "{error}");
    }

    #[test]
    fn users_alone_mean_basic_and_users_with_tokens_must_be_explained() {
        let keys =
            |users: bool, tokens: bool| Keys { users: users.then(String::new), tokens: tokens.then(String::new) };

        assert_eq!(Section::default().mode(&keys(true, false)).unwrap(), Mode::Basic);
        assert_eq!(Section::default().mode(&keys(false, true)).unwrap(), Mode::Bearer);
        assert!(Section::default().mode(&keys(true, true)).unwrap_err().to_string().contains("--auth"));
    }

    #[test]
    fn a_header_is_believed_only_from_a_proxy_that_is_named() {
        assert!(settle("[web]\nauth = \"forward\"").unwrap_err().to_string().contains("--proxy"));

        let settings = settle("[web]\nauth = \"forward\"\nproxies = [\"10.0.0.2\"]").unwrap();

        assert!(matches!(settings.options.auth, Auth::Forward { ref header, .. } if header == HEADER));
    }

    #[test]
    fn an_origin_has_a_scheme_and_no_path() {
        assert!(check_origin("https://jobs.example.com:8443").is_ok());
        for wrong in ["jobs.example.com", "https://jobs.example.com/", "https://", "ftp://a"] {
            assert!(check_origin(wrong).is_err(), "{wrong}");
        }
    }
}
