//! Named places where a test may make the engine stumble.
//!
//! `failpoint::hit("sqlite.commit.before")?` stands where a crash or an error would hurt most. Without the feature
//! `failpoints` it compiles to nothing. With it, a test gives a point an [`Action`] by [`set`] or, in another
//! process, through [`configure`] with a text such as `sqlite.commit.before=kill@3;acker.reply.lost=error`: what to
//! do, and from the how-manieth hit on (default 1, once; `@3+` means from the third on, always).

#[cfg(feature = "failpoints")]
pub use enabled::*;

use crate::error::StoreError;

/// Does what a test wants done at the point `name`; nothing otherwise.
///
/// # Errors
/// Whatever the test asked for: [`StoreError::Unavailable`].
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn hit(_name: &'static str) -> Result<(), StoreError> {
    Ok(())
}

#[cfg(feature = "failpoints")]
mod enabled {
    use std::collections::HashMap;
    use std::sync::{LazyLock, Mutex};

    use super::StoreError;

    /// What to do at a point.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Action {
        /// Answer [`StoreError::Unavailable`].
        Error,
        /// Panic.
        Panic,
        /// End the process at once, without any clean-up.
        Kill,
    }

    #[derive(Debug)]
    struct Point {
        action: Action,
        from_hit: u64,
        always: bool,
        hits: u64,
    }

    static POINTS: LazyLock<Mutex<HashMap<String, Point>>> = LazyLock::new(Mutex::default);

    /// Does `action` at the `from_hit`-th hit of `name` (from 1), and at every later one if `always`.
    pub fn set(name: &str, action: Action, from_hit: u64, always: bool) {
        let point = Point { action, from_hit, always, hits: 0 };
        POINTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(name.to_owned(), point);
    }

    /// Takes every action away.
    pub fn clear() {
        POINTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
    }

    /// Sets points from a text: `name=error|panic|kill[@N[+]]`, separated by `;`.
    ///
    /// # Errors
    /// The part that could not be read.
    pub fn configure(text: &str) -> Result<(), String> {
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let unreadable = || format!("failpoint {part:?}: expected name=error|panic|kill[@N[+]]");
            let (name, rest) = part.split_once('=').ok_or_else(unreadable)?;
            let (word, when) = rest.split_once('@').unwrap_or((rest, "1"));
            let action = match word {
                "error" => Action::Error,
                "panic" => Action::Panic,
                "kill" => Action::Kill,
                _ => return Err(unreadable()),
            };
            let always = when.ends_with('+');
            let from_hit = when.trim_end_matches('+').parse().map_err(|_| unreadable())?;
            set(name, action, from_hit, always);
        }
        Ok(())
    }

    /// Does what a test wants done at the point `name`; nothing otherwise.
    pub fn hit(name: &'static str) -> Result<(), StoreError> {
        match due_action(name) {
            None => Ok(()),
            Some(Action::Error) => Err(StoreError::Unavailable {
                tried: "failpoint",
                store: name.to_owned(),
                detail: "a test asked for this error".to_owned(),
            }),
            Some(Action::Panic) => panic!("failpoint {name}: a test asked for this panic"),
            Some(Action::Kill) => std::process::abort(),
        }
    }

    fn due_action(name: &str) -> Option<Action> {
        let mut points = POINTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let point = points.get_mut(name)?;
        point.hits += 1;
        let is_due = point.hits == point.from_hit || (point.always && point.hits > point.from_hit);
        is_due.then_some(point.action)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_point_acts_from_its_hit_on_and_not_before() {
            configure("test.point.a=error@2").unwrap();

            let answers: Vec<bool> = (0..3).map(|_| hit("test.point.a").is_err()).collect();

            assert_eq!(answers, [false, true, false]);
        }

        #[test]
        fn a_text_that_names_no_action_is_refused() {
            assert!(configure("x=explode").unwrap_err().contains("x=explode"));
        }
    }
}
