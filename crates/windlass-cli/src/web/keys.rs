//! Users and tokens, from a file or from the environment.
//!
//! One a line; empty lines and lines that begin with `#` are for people. A complaint names the line and never shows it.

use std::path::Path;

use argon2::password_hash::phc::PasswordHash;
use windlass_web::auth::{Role, Secret, Token, User};

use crate::exit::Usage;

/// The shortest token: shorter ones can be guessed.
const TOKEN_LEN_MIN: usize = 16;

/// What the environment holds.
#[derive(Clone, Default)]
pub(super) struct Keys {
    pub(super) users: Option<String>,
    pub(super) tokens: Option<String>,
}

impl Keys {
    pub(super) fn of_environment() -> Keys {
        Keys { users: std::env::var("WINDLASS_WEB_USERS").ok(), tokens: std::env::var("WINDLASS_WEB_TOKENS").ok() }
    }
}

/// The users of a file, else of the environment.
pub(super) fn users(file: Option<&Path>, keys: &Keys) -> Result<Vec<User>, Usage> {
    let what = "users: name a file of NAME:view|act:HASH by --users, or set WINDLASS_WEB_USERS to such lines";
    lines(file, ("WINDLASS_WEB_USERS", keys.users.as_deref()), what, user)
}

/// The tokens of a file, else of the environment.
pub(super) fn tokens(file: Option<&Path>, keys: &Keys) -> Result<Vec<Token>, Usage> {
    let what = "tokens: name a file of view|act:TOKEN by --tokens, or set WINDLASS_WEB_TOKENS to such lines";
    lines(file, ("WINDLASS_WEB_TOKENS", keys.tokens.as_deref()), what, token)
}

fn lines<T>(
    file: Option<&Path>,
    (variable, value): (&str, Option<&str>),
    what: &str,
    read: fn(&str) -> Result<T, &'static str>,
) -> Result<Vec<T>, Usage> {
    let (place, text) = match (file, value) {
        (Some(path), _) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Usage(format!("{}: cannot be read: {error}", path.display())))?;
            (path.display().to_string(), text)
        }
        (None, Some(value)) => (variable.to_owned(), value.to_owned()),
        (None, None) => return Err(Usage(format!("there are no {what}"))),
    };
    let said = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let read = |(index, line): (usize, &str)| {
        read(line.trim()).map_err(|why| Usage(format!("{place}, line {}: {why}", index + 1)))
    };
    let all = said.map(read).collect::<Result<Vec<T>, Usage>>()?;
    if all.is_empty() {
        return Err(Usage(format!("{place} holds nobody: nobody could look")));
    }
    Ok(all)
}

fn user(line: &str) -> Result<User, &'static str> {
    let mut parts = line.splitn(3, ':');
    let (Some(name), Some(role), Some(hash)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("must be NAME:view|act:HASH");
    };
    if name.is_empty() {
        return Err("the name is empty");
    }
    if !hash.starts_with("$argon2id$") || PasswordHash::new(hash).is_err() {
        return Err("the hash is none of argon2id: make it with `windlass web hash-password`");
    }
    Ok(User { name: name.to_owned(), hash: Secret::new(hash), role: self::role(role)? })
}

fn token(line: &str) -> Result<Token, &'static str> {
    let Some((role, token)) = line.split_once(':') else { return Err("must be view|act:TOKEN") };
    if token.len() < TOKEN_LEN_MIN {
        return Err("the token is shorter than 16 characters: make it with `openssl rand -hex 32`");
    }
    Ok(Token { token: Secret::new(token), role: self::role(role)? })
}

fn role(text: &str) -> Result<Role, &'static str> {
    match text {
        "view" => Ok(Role::View),
        "act" => Ok(Role::Act),
        _ => Err("the role must be view or act"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$wl0kI0NkxTrwBVXpvYzUzuJrsMOnUe2B0UKV6DVX6vs";

    fn of_variable(text: &str) -> Keys {
        Keys { users: Some(text.to_owned()), tokens: Some(text.to_owned()) }
    }

    #[test]
    fn users_stand_one_a_line_between_remarks() {
        let users = users(None, &of_variable(&format!("# who\n\nann:act:{HASH}\nbob:view:{HASH}\n"))).unwrap();

        let known: Vec<(&str, Role)> = users.iter().map(|user| (user.name.as_str(), user.role)).collect();
        assert_eq!(known, [("ann", Role::Act), ("bob", Role::View)]);
    }

    #[test]
    fn a_wrong_line_is_named_and_not_shown() {
        for wrong in ["ann:act:secret-in-clear", "ann:boss:$argon2id$", "secret", "short:act"] {
            let keys = of_variable(&format!("# first\n{wrong}\n"));
            let complaint = users(None, &keys).unwrap_err().to_string();
            assert!(complaint.contains("WINDLASS_WEB_USERS, line 2: "), "{complaint}");
            assert!(!complaint.contains("secret"), "{complaint}");
        }
        assert!(tokens(None, &of_variable("act:short")).unwrap_err().to_string().contains("16 characters"));
    }

    #[test]
    fn a_file_without_anybody_is_refused() {
        assert!(users(None, &of_variable("# nobody\n")).unwrap_err().to_string().contains("nobody"));
        assert!(users(None, &Keys::default()).unwrap_err().to_string().contains("--users"));
    }

    #[test]
    fn a_token_has_a_role() {
        let tokens = tokens(None, &of_variable("view:0123456789abcdef:x")).unwrap();

        assert_eq!(tokens[0].role, Role::View);
    }
}
