//! `windlass web hash-password`: a password in, its argon2id hash out.
//!
//! From a terminal it is asked for, and not shown while it is typed; otherwise the first line of standard input is it.

use std::io::{BufRead, IsTerminal};

use argon2::{Argon2, PasswordHasher};

use crate::exit::Usage;
use crate::output;

pub(super) fn run() -> anyhow::Result<()> {
    let password = if std::io::stdin().is_terminal() { ask()? } else { line()? };
    if password.is_empty() {
        return Err(Usage("the password is empty".to_owned()).into());
    }
    let hash = Argon2::default()
        .hash_password(password.as_bytes())
        .map_err(|error| anyhow::anyhow!("cannot hash the password: {error}"))?;
    output::line(&hash.to_string())
}

fn ask() -> anyhow::Result<String> {
    output::error("password: ");
    let _hidden = Hidden::begin();
    line()
}

fn line() -> anyhow::Result<String> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

/// The terminal shows nothing of what is typed until this is dropped.
#[derive(Debug)]
struct Hidden {
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

impl Hidden {
    #[cfg(unix)]
    fn begin() -> Hidden {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok().filter(|before| {
            let mut silent = before.clone();
            silent.local_modes.remove(LocalModes::ECHO);
            tcsetattr(&stdin, OptionalActions::Now, &silent).is_ok()
        });
        if before.is_none() {
            output::error("windlass: this terminal shows what is typed");
        }
        Hidden { before }
    }

    #[cfg(not(unix))]
    fn begin() -> Hidden {
        output::error("windlass: this terminal shows what is typed");
        Hidden {}
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            use rustix::termios::{OptionalActions, tcsetattr};

            if let Err(error) = tcsetattr(std::io::stdin(), OptionalActions::Now, before) {
                output::error(&format!("windlass: the terminal stays silent ({error}): type `stty echo`"));
            }
        }
    }
}
