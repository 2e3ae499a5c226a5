//! Where settings come from: defaults, then a file, then its section for the environment, then variables, then flags.
//!
//! Every setting is one row of [`SETTINGS`]: its name, how it is set from a text, how it is shown as one. So a file, a
//! variable and a flag are read by the same code, and each error names the setting, its place (line and column, in a
//! file) and what is allowed. The row's name is the key in the file; the variable is `WINDLASS_` and the name in
//! capitals, but for the store, whose variable is `WINDLASS_URL`.
//!
//! ```toml
//! store = "sqlite:jobs.db"
//! queues = ["mail:4", "images", "payments:1:at-most-once"]
//! lease = "15s"
//!
//! [env.production]
//! concurrency = 200
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use crate::config::{Allow, ConfigError, QueueConfig, QueueOrder, ServerConfig, parse_duration};

/// The file that is read when none is named and it is there.
pub const FILE_NAME: &str = "windlass.toml";

/// Everything a program can be set up with.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The URL of the store. Default: `sqlite:jobs.db`.
    pub store: String,
    /// How the server works.
    pub server: ServerConfig,
    /// What jobs of the kinds `exec` and `http` may do.
    pub allow: Allow,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { store: "sqlite:jobs.db".to_owned(), server: ServerConfig::default(), allow: Allow::default() }
    }
}

/// Who set a setting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// Nobody.
    #[default]
    Default,
    /// A file.
    File {
        /// Which.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
    },
    /// A variable of the environment.
    Variable(String),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Origin::Variable(name) => write!(f, "variable {name}"),
            Origin::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One setting: how it is read and shown.
struct Setting {
    name: &'static str,
    set: fn(&mut Settings, &str) -> Result<(), String>,
    show: fn(&Settings) -> String,
}

const SETTINGS: &[Setting] = &[
    Setting { name: "store", set: |s, text| put(&mut s.store, Ok(text.to_owned())), show: |s| s.store.clone() },
    Setting {
        name: "queues",
        set: |s, text| put(&mut s.server.queues, parse_queues(text)),
        show: |s| s.server.queues.iter().map(show_queue).collect::<Vec<_>>().join(","),
    },
    Setting {
        name: "order",
        set: |s, text| put(&mut s.server.order, parse_order(text)),
        show: |s| show_order(s.server.order).to_owned(),
    },
    Setting {
        name: "concurrency",
        set: |s, text| put(&mut s.server.concurrency, number(text)),
        show: |s| s.server.concurrency.to_string(),
    },
    Setting {
        name: "cpu_threads",
        set: |s, text| put(&mut s.server.cpu_threads, number(text)),
        show: |s| s.server.cpu_threads.to_string(),
    },
    Setting {
        name: "lease",
        set: |s, text| put(&mut s.server.lease, parse_duration(text)),
        show: |s| show_duration(s.server.lease),
    },
    Setting {
        name: "poll_interval",
        set: |s, text| put(&mut s.server.poll_interval, parse_duration(text)),
        show: |s| show_duration(s.server.poll_interval),
    },
    Setting {
        name: "stop_timeout",
        set: |s, text| put(&mut s.server.stop_timeout, parse_duration(text)),
        show: |s| show_duration(s.server.stop_timeout),
    },
    Setting {
        name: "cancel_grace",
        set: |s, text| put(&mut s.server.cancel_grace, parse_duration(text)),
        show: |s| show_duration(s.server.cancel_grace),
    },
    Setting {
        name: "job_timeout",
        set: |s, text| {
            put(&mut s.server.job_timeout, if text == "none" { Ok(None) } else { parse_duration(text).map(Some) })
        },
        show: |s| s.server.job_timeout.map_or_else(|| "none".to_owned(), show_duration),
    },
    Setting {
        name: "block_warning",
        set: |s, text| put(&mut s.server.block_warning, parse_duration(text)),
        show: |s| show_duration(s.server.block_warning),
    },
    Setting {
        name: "prefetch_max",
        set: |s, text| put(&mut s.server.prefetch_max, number(text)),
        show: |s| s.server.prefetch_max.to_string(),
    },
    Setting {
        name: "keep_dead",
        set: |s, text| put(&mut s.server.keep.dead, parse_duration(text)),
        show: |s| show_duration(s.server.keep.dead),
    },
    Setting {
        name: "keep_dead_count_max",
        set: |s, text| put(&mut s.server.keep.dead_count_max, number(text).map(u64::from)),
        show: |s| s.server.keep.dead_count_max.to_string(),
    },
    Setting {
        name: "keep_cancelled",
        set: |s, text| put(&mut s.server.keep.cancelled, parse_duration(text)),
        show: |s| show_duration(s.server.keep.cancelled),
    },
    Setting {
        name: "allow_exec",
        set: |s, text| put(&mut s.allow.exec, Ok(list(text))),
        show: |s| s.allow.exec.join(","),
    },
    Setting {
        name: "allow_exec_any",
        set: |s, text| put(&mut s.allow.exec_any, truth(text)),
        show: |s| s.allow.exec_any.to_string(),
    },
    Setting {
        name: "allow_exec_cwd",
        set: |s, text| put(&mut s.allow.exec_cwd, Ok(list(text))),
        show: |s| s.allow.exec_cwd.join(","),
    },
    Setting {
        name: "allow_exec_env",
        set: |s, text| put(&mut s.allow.exec_env, Ok(list(text))),
        show: |s| s.allow.exec_env.join(","),
    },
    Setting {
        name: "allow_http",
        set: |s, text| put(&mut s.allow.http, Ok(list(text))),
        show: |s| s.allow.http.join(","),
    },
];

fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "must be a whole number".to_owned())
}

fn truth(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "must be true or false".to_owned())
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn list(text: &str) -> Vec<String> {
    items(text).map(str::to_owned).collect()
}

fn parse_queues(text: &str) -> Result<Vec<QueueConfig>, String> {
    items(text).map(parse_queue).collect()
}

/// Reads `NAME`, `NAME:WEIGHT` or `NAME:WEIGHT:at-most-once`.
///
/// # Errors
/// What is expected.
pub fn parse_queue(text: &str) -> Result<QueueConfig, String> {
    let (text, at_most_once) = match text.strip_suffix(":at-most-once") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (name, weight) = match text.rsplit_once(':') {
        Some((name, weight)) if weight.bytes().all(|digit| digit.is_ascii_digit()) => {
            let weight =
                weight.parse().map_err(|_| format!("queue {text:?}: its weight must be between 1 and 1000"))?;
            (name, weight)
        }
        _ => (text, 1),
    };
    Ok(QueueConfig { name: name.to_owned(), weight, at_most_once })
}

fn show_queue(queue: &QueueConfig) -> String {
    let at_most_once = if queue.at_most_once { ":at-most-once" } else { "" };
    format!("{}:{}{at_most_once}", queue.name, queue.weight)
}

fn parse_order(text: &str) -> Result<QueueOrder, String> {
    match text {
        "strict" => Ok(QueueOrder::Strict),
        "weighted" => Ok(QueueOrder::Weighted),
        "fair" => Ok(QueueOrder::Fair),
        _ => Err("must be strict, weighted or fair".to_owned()),
    }
}

fn show_order(order: QueueOrder) -> &'static str {
    match order {
        QueueOrder::Strict => "strict",
        QueueOrder::Weighted => "weighted",
        QueueOrder::Fair => "fair",
    }
}

fn show_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    if ms.is_multiple_of(1_000) { format!("{}s", ms / 1_000) } else { format!("{ms}ms") }
}

/// Settings with their origins.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// What is in force.
    pub settings: Settings,
    origins: BTreeMap<&'static str, Origin>,
}

/// Where to look. Nothing is read that is not named here.
#[derive(Default)]
pub struct Sources<'a> {
    /// The file, and whether it must be there.
    pub file: Option<(&'a Path, bool)>,
    /// The section `[env.NAME]` of the file that applies on top of it.
    pub section: Option<&'a str>,
    /// The variables of the environment.
    pub variables: BTreeMap<String, String>,
    /// Flags: the name of the setting, the name of the flag, the text.
    pub flags: Vec<(&'static str, &'static str, String)>,
}

impl fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("file", &self.file).field("section", &self.section).finish_non_exhaustive()
    }
}

/// The variables of this process that may be settings.
pub fn variables() -> BTreeMap<String, String> {
    std::env::vars().filter(|(name, _)| name.starts_with("WINDLASS_")).collect()
}

/// Sets failpoints as the variable `WINDLASS_FAILPOINTS` says.
///
/// # Errors
/// The part that could not be read.
#[cfg(feature = "failpoints")]
pub fn failpoints_from_environment() -> Result<(), String> {
    std::env::var("WINDLASS_FAILPOINTS").map_or(Ok(()), |text| crate::failpoint::configure(&text))
}

/// Puts settings together and checks them.
///
/// # Errors
/// [`ConfigError`] names the setting, where it stands and what is allowed.
pub fn load(sources: &Sources<'_>) -> Result<Loaded, ConfigError> {
    let mut loaded = Loaded::default();
    if let Some((path, is_required)) = sources.file {
        match std::fs::read_to_string(path) {
            Ok(text) => loaded.read_file(path, &text, sources.section)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_required => {}
            Err(error) => {
                return Err(ConfigError {
                    field: "file".to_owned(),
                    found: path.display().to_string(),
                    origin: None,
                    allowed: format!("cannot be read: {error}"),
                });
            }
        }
    }
    for setting in SETTINGS {
        let name = variable_of(setting.name);
        if let Some(text) = sources.variables.get(&name) {
            loaded.apply(setting, text, Origin::Variable(name))?;
        }
    }
    for (name, flag, text) in &sources.flags {
        if let Some(setting) = SETTINGS.iter().find(|setting| setting.name == *name) {
            loaded.apply(setting, text, Origin::Flag((*flag).to_owned()))?;
        }
    }
    loaded.validate()?;
    Ok(loaded)
}

fn variable_of(name: &str) -> String {
    if name == "store" { "WINDLASS_URL".to_owned() } else { format!("WINDLASS_{}", name.to_uppercase()) }
}

impl Loaded {
    /// Every setting: its name, its value as a text, and who set it.
    pub fn rows(&self) -> Vec<(&'static str, String, Origin)> {
        let row = |setting: &Setting| {
            let origin = self.origins.get(setting.name).cloned().unwrap_or_default();
            (setting.name, (setting.show)(&self.settings), origin)
        };
        SETTINGS.iter().map(row).collect()
    }

    fn apply(&mut self, setting: &Setting, text: &str, origin: Origin) -> Result<(), ConfigError> {
        (setting.set)(&mut self.settings, text).map_err(|allowed| ConfigError {
            field: setting.name.to_owned(),
            found: format!("{text:?}"),
            origin: Some(origin.to_string()),
            allowed,
        })?;
        self.origins.insert(setting.name, origin);
        Ok(())
    }

    /// Checks the ranges; the error tells who set the value.
    fn validate(&self) -> Result<(), ConfigError> {
        self.settings.server.validate().map_err(|error| {
            let name = error.field.split('.').next().unwrap_or_default();
            ConfigError { origin: self.origins.get(name).map(Origin::to_string), ..error }
        })
    }

    fn read_file(&mut self, path: &Path, text: &str, section: Option<&str>) -> Result<(), ConfigError> {
        let table = DeTable::parse(text).map_err(|error| {
            let origin = place(path, text, error.span().map_or(0, |span| span.start));
            ConfigError {
                field: "file".to_owned(),
                found: path.display().to_string(),
                origin: Some(origin.to_string()),
                allowed: error.message().to_owned(),
            }
        })?;
        self.read_table(path, text, table.get_ref(), true)?;
        let Some(section) = section else { return Ok(()) };
        let environments = table.get_ref().get("env").and_then(|value| value.get_ref().as_table());
        let chosen = environments.and_then(|env| env.get(section)).and_then(|value| value.get_ref().as_table());
        match chosen {
            Some(chosen) => self.read_table(path, text, chosen, false),
            // A file without sections serves every environment.
            None if environments.is_none() => Ok(()),
            None => Err(ConfigError {
                field: "env".to_owned(),
                found: format!("{section:?}"),
                origin: Some(path.display().to_string()),
                allowed: format!("there is no section [env.{section}] in the file"),
            }),
        }
    }

    fn read_table(&mut self, path: &Path, text: &str, table: &DeTable<'_>, is_top: bool) -> Result<(), ConfigError> {
        for (key, value) in table {
            let name: &str = key.get_ref();
            // Sections with settings of their own: of an environment, and of the dashboard, which its own program reads.
            if (is_top && name == "env") || name == "web" {
                continue;
            }
            let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
                let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
                return Err(ConfigError {
                    field: name.to_owned(),
                    found: "an unknown setting".to_owned(),
                    origin: Some(place(path, text, key.span().start).to_string()),
                    allowed: format!("known are {}", names.join(", ")),
                });
            };
            let origin = place(path, text, value.span().start);
            let value = text_of(value.get_ref()).map_err(|allowed| ConfigError {
                field: name.to_owned(),
                found: format!("{:?}", &text[value.span()]),
                origin: Some(origin.to_string()),
                allowed,
            })?;
            self.apply(setting, &value, origin)?;
        }
        Ok(())
    }
}

/// A value of the file as the text a flag would have.
fn text_of(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.to_string()),
        DeValue::Boolean(truth) => Ok(truth.to_string()),
        DeValue::Array(items) => {
            let items: Result<Vec<String>, String> = items.iter().map(|item| text_of(item.get_ref())).collect();
            Ok(items?.join(","))
        }
        _ => Err("must be a text, a whole number, true, false or a list of texts".to_owned()),
    }
}

fn place(path: &Path, text: &str, offset: usize) -> Origin {
    let before = &text[..offset.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Origin::File { path: path.to_owned(), line, column }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_text(text: &str, section: Option<&str>) -> Result<Loaded, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("windlass.toml");
        std::fs::write(&path, text).unwrap();
        load(&Sources { file: Some((&path, true)), section, ..Sources::default() })
    }

    fn message(text: &str) -> String {
        load_text(text, None).unwrap_err().to_string()
    }

    #[test]
    fn later_sources_win_and_each_value_knows_who_set_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("windlass.toml");
        std::fs::write(
            &path,
            "concurrency = 5\nlease = \"20s\"\n[env.production]\nconcurrency = 6\nprefetch_max = 9\n",
        )
        .unwrap();
        let sources = Sources {
            file: Some((&path, true)),
            section: Some("production"),
            variables: BTreeMap::from([("WINDLASS_PREFETCH_MAX".to_owned(), "10".to_owned())]),
            flags: vec![("store", "--store", "memory:".to_owned())],
        };

        let loaded = load(&sources).unwrap();

        let server = &loaded.settings.server;
        assert_eq!((server.concurrency, server.lease.as_secs(), server.prefetch_max), (6, 20, 10));
        let origin = |name: &str| loaded.rows().into_iter().find(|row| row.0 == name).unwrap().2.to_string();
        assert!(origin("concurrency").ends_with("windlass.toml:4:15"), "{}", origin("concurrency"));
        assert_eq!(origin("prefetch_max"), "variable WINDLASS_PREFETCH_MAX");
        assert_eq!(origin("store"), "flag --store");
        assert_eq!(origin("order"), "default");
    }

    #[test]
    fn an_unknown_key_is_an_error_with_its_place_and_what_is_known() {
        let text = message("\nconcurency = 5\n");

        assert!(text.contains("concurency") && text.contains(":2:1") && text.contains("concurrency"), "{text}");
    }

    #[test]
    fn a_value_out_of_range_is_an_error_with_its_place_and_the_range() {
        let text = message("lease = \"15s\"\nconcurrency = 0\n");

        assert!(text.contains("concurrency = 0") && text.contains(":2:15") && text.contains("between 1 and"), "{text}");
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_an_error_with_its_place() {
        assert!(message("lease = 1.5\n").contains(":1:9"));
        assert!(message("lease = \"soon\"\n").contains("span of time"));
        assert!(message("order = \"random\"\n").contains("strict, weighted or fair"));
        assert!(message("lease = \n").contains(":1:"));
    }

    #[test]
    fn queues_have_weights_and_modes() {
        let loaded = load_text("queues = [\"mail:4\", \"a:b\", \"pay:1:at-most-once\"]\n", None).unwrap();

        let queues = &loaded.settings.server.queues;
        assert_eq!((queues[0].name.as_str(), queues[0].weight), ("mail", 4));
        assert_eq!((queues[1].name.as_str(), queues[1].weight), ("a:b", 1));
        assert!(queues[2].at_most_once);
        assert!(message("queues = [\"a\", \"a\"]\n").contains("twice"));
        assert!(message("queues = []\n").contains("at least one"));
    }

    #[test]
    fn what_jobs_may_do_is_nothing_until_it_is_listed() {
        assert!(load_text("", None).unwrap().settings.allow == Allow::default());

        let text = "allow_exec = [\"ffmpeg\", \"/usr/bin/convert\"]\nallow_exec_any = true\nallow_http = \"a.test\"\n";
        let allow = load_text(text, None).unwrap().settings.allow;

        assert_eq!(allow.exec, ["ffmpeg", "/usr/bin/convert"]);
        assert_eq!((allow.exec_any, allow.http), (true, vec!["a.test".to_owned()]));
        assert!(message("allow_exec_any = \"perhaps\"\n").contains("true or false"));
    }

    #[test]
    fn a_section_that_is_not_there_is_an_error_and_a_missing_file_is_not_unless_it_was_named() {
        assert!(load_text("[env.test]\n", Some("production")).unwrap_err().to_string().contains("env.production"));
        let missing = Path::new("no-such-file.toml");
        assert!(load(&Sources { file: Some((missing, false)), ..Sources::default() }).is_ok());
        assert!(load(&Sources { file: Some((missing, true)), ..Sources::default() }).is_err());
    }

    #[test]
    fn every_setting_is_read_back_as_it_is_shown() {
        let mut settings = Settings::default();
        for setting in SETTINGS {
            let shown = (setting.show)(&settings);
            (setting.set)(&mut settings, &shown).unwrap();
        }
        assert_eq!(settings, Settings::default());
    }
}
