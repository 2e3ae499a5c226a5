//! Which store a URL names.

use std::sync::Arc;

use crate::error::StoreError;
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::sharded::ShardedStore;

/// Opens the store that `url` names: `sqlite:PATH`, `sqlite:PATH?sync=normal` for the fast mode,
/// `redis://HOST:PORT/DB` and its kin, `memory:`, or `shards:URL|URL|…` for several of them as one ([`ShardedStore`]).
///
/// # Errors
/// [`StoreError::Refused`] for a URL of another kind, and for whatever the store itself refuses.
pub fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    match url.split_once(':') {
        Some(("memory", "")) => Ok(Arc::new(MemoryStore::default())),
        Some(("shards", urls)) => {
            let shards = urls.split('|').map(open).collect::<Result<_, _>>()?;
            Ok(Arc::new(ShardedStore::new(shards)?))
        }
        #[cfg(feature = "sqlite")]
        Some(("sqlite", rest)) => open_sqlite(url, rest),
        #[cfg(feature = "redis")]
        Some(("redis" | "rediss" | "unix" | "redis+unix" | "redis+sentinel", _)) => {
            use crate::store::redis::{RedisOptions, RedisStore};
            Ok(Arc::new(RedisStore::open(url, RedisOptions::default())?))
        }
        _ => Err(refused(url, "no kind of store this build knows", known())),
    }
}

fn known() -> String {
    let sqlite = if cfg!(feature = "sqlite") { "sqlite:PATH (such as sqlite:jobs.db) or " } else { "" };
    let redis = if cfg!(feature = "redis") { "redis://HOST:PORT/DB or " } else { "" };
    format!("use {sqlite}{redis}memory:")
}

fn refused(url: &str, found: impl Into<String>, hint: impl Into<String>) -> StoreError {
    StoreError::Refused { tried: "open", store: format!("{url:?}"), found: found.into(), hint: hint.into() }
}

#[cfg(feature = "sqlite")]
fn open_sqlite(url: &str, rest: &str) -> Result<Arc<dyn Store>, StoreError> {
    use crate::store::sqlite::{SqliteOptions, SqliteStore, Sync};

    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    // `sqlite://relative` and `sqlite:///absolute` are what other programs write.
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() || path == ":memory:" {
        return Err(refused(url, "no path of a file", "name a file, such as sqlite:jobs.db, or use memory:"));
    }
    let mut options = SqliteOptions::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        options.sync = match pair {
            "sync=full" => Sync::Full,
            "sync=normal" => Sync::Normal,
            _ => {
                return Err(refused(url, format!("the setting {pair:?}"), "known are sync=full and sync=normal"));
            }
        };
    }
    Ok(Arc::new(SqliteStore::open(path, options)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_names_no_known_store_is_refused_with_those_that_are_known() {
        for url in
            ["jobs.db", "mysql://localhost", "", "sqlite:", "sqlite::memory:", "sqlite:x.db?sync=never", "memory:x"]
        {
            let error = open(url).unwrap_err().to_string();
            assert!(error.contains("memory:") || error.contains("sync=full"), "{url}: {error}");
        }
    }

    #[test]
    fn several_stores_are_opened_as_one_and_what_is_wrong_with_one_is_said() {
        assert_eq!(open("shards:memory:|memory:").unwrap().describe().url, "shards:memory:|memory:");
        assert!(open("shards:memory:|nonsense").unwrap_err().to_string().contains("nonsense"));
        assert!(open("shards:").is_err());
    }

    #[test]
    fn memory_is_opened_by_its_name() {
        assert_eq!(open("memory:").unwrap().describe().engine, "memory");
    }
}
