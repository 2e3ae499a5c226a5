//! Configuration errors.

/// A setting that cannot be used, with where it stands and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("config: {field} = {found}{}: {allowed}", origin.as_ref().map(|o| format!(" ({o})")).unwrap_or_default())]
pub struct ConfigError {
    /// The name of the setting.
    pub field: String,
    /// Its value.
    pub found: String,
    /// Where it was set: a file with line and column, a variable, a flag.
    pub origin: Option<String>,
    /// What is allowed.
    pub allowed: String,
}
