//! The scripts, and calls of them.
//!
//! Each file in `scripts/` is one atomic step and says at its top what it takes and answers. A [`Call`] collects keys
//! and arguments; keys are named once and then meant by their number, so that every key is declared to the server.

use std::sync::OnceLock;

use redis::{Cmd, cmd};

/// A server of 7.0 and later refuses scripts that write while its memory is full, unless they say that they may. These
/// may: jobs must be taken and acknowledged so that memory becomes free. (`insert` is the one that must not.)
const FLAGS: &str = "#!lua flags=allow-oom\n";

/// One script.
#[derive(Debug)]
pub(super) struct Script {
    body: &'static str,
    frees_memory: bool,
    hash: OnceLock<String>,
    hash_with_flags: OnceLock<String>,
}

macro_rules! script {
    ($name:ident, $file:literal, $frees:literal) => {
        pub(super) static $name: Script = Script {
            body: include_str!(concat!("scripts/", $file, ".lua")),
            frees_memory: $frees,
            hash: OnceLock::new(),
            hash_with_flags: OnceLock::new(),
        };
    };
}

script!(INSERT, "insert", false);
script!(LEASE, "lease", true);
script!(FINISH, "finish", true);
script!(MOVE, "move", true);
script!(JOIN, "join", true);
script!(BEAT, "beat", true);
script!(FENCE, "fence", true);
script!(ASK, "ask", true);
script!(SHOW, "show", true);
script!(HIDE, "hide", true);
script!(MEASURE, "measure", true);
script!(RECORD, "record", false);

impl Script {
    /// The text to load.
    pub(super) fn text(&self, has_flags: bool) -> String {
        if has_flags && self.frees_memory { format!("{FLAGS}{}", self.body) } else { self.body.to_owned() }
    }

    fn hash(&self, has_flags: bool) -> &str {
        let place = if has_flags { &self.hash_with_flags } else { &self.hash };
        place.get_or_init(|| redis::Script::new(&self.text(has_flags)).get_hash().to_owned())
    }
}

/// A script with its keys and arguments.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) script: &'static Script,
    keys: Vec<String>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Call {
    pub(super) fn new(script: &'static Script) -> Call {
        Call { script, keys: Vec::with_capacity(16), bytes: Vec::new(), ends: Vec::new() }
    }

    /// Room for so many bytes of arguments.
    pub(super) fn with_capacity(script: &'static Script, bytes: usize, args: usize) -> Call {
        Call { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(args), ..Call::new(script) }
    }

    /// Declares a key at the next number.
    pub(super) fn key(&mut self, key: String) -> &mut Call {
        self.keys.push(key);
        self
    }

    /// The number of a key behind the first `fixed` ones, which is declared if it is new.
    pub(super) fn number_of(&mut self, key: String, fixed: usize) -> usize {
        let known = self.keys.iter().skip(fixed).rposition(|known| *known == key);
        match known {
            Some(index) => fixed + index + 1,
            None => {
                self.keys.push(key);
                self.keys.len()
            }
        }
    }

    pub(super) fn arg(&mut self, arg: impl AsRef<[u8]>) -> &mut Call {
        self.bytes.extend_from_slice(arg.as_ref());
        self.ends.push(self.bytes.len());
        self
    }

    pub(super) fn number(&mut self, number: impl itoa::Integer) -> &mut Call {
        self.arg(itoa::Buffer::new().format(number))
    }

    /// The command that runs it by its hash.
    pub(super) fn command(&self, has_flags: bool) -> Cmd {
        let mut command = cmd("EVALSHA");
        command.arg(self.script.hash(has_flags)).arg(self.keys.len());
        for key in &self.keys {
            command.arg(key);
        }
        let mut begin = 0;
        for end in &self.ends {
            command.arg(&self.bytes[begin..*end]);
            begin = *end;
        }
        command
    }
}
