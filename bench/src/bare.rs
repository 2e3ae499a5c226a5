//! The bare library, doing the least that a job's life needs: the ceiling of what can be built on it.

use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, params};

/// Jobs in one transaction.
const GROUP: usize = 500;

fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -16384;
             CREATE TABLE job (seq INTEGER PRIMARY KEY, id BLOB NOT NULL, queue TEXT NOT NULL, state INTEGER NOT NULL,
                               run_at INTEGER NOT NULL, payload BLOB NOT NULL) STRICT;
             CREATE UNIQUE INDEX job_id ON job (id);
             CREATE INDEX job_ready ON job (queue, run_at) WHERE state = 1;
             CREATE INDEX job_running ON job (run_at) WHERE state = 2;",
        )
        .unwrap();
    connection
}

/// Inserts, then updates and deletes `count` jobs; answers both rates.
pub fn insert_and_cycle(path: &Path, count: usize, payload: &[u8]) -> (f64, f64) {
    let mut connection = open(path);
    let since = Instant::now();
    for group in 0..count / GROUP {
        let transaction = connection.transaction().unwrap();
        for place in 0..GROUP {
            let number = (group * GROUP + place) as u64;
            let mut id = [0_u8; 12];
            id[4..].copy_from_slice(&number.to_be_bytes());
            transaction
                .prepare_cached("INSERT INTO job (id, queue, state, run_at, payload) VALUES (?1, 'default', 1, ?2, ?3)")
                .unwrap()
                .execute(params![id, number as i64, payload])
                .unwrap();
        }
        transaction.commit().unwrap();
    }
    let inserted = crate::rate(count, since.elapsed());
    let since = Instant::now();
    for group in 0..count / GROUP {
        let first = (group * GROUP) as i64 + 1;
        for statement in ["UPDATE job SET state = 2 WHERE seq = ?1", "DELETE FROM job WHERE seq = ?1"] {
            let transaction = connection.transaction().unwrap();
            for seq in first..first + GROUP as i64 {
                transaction.prepare_cached(statement).unwrap().execute([seq]).unwrap();
            }
            transaction.commit().unwrap();
        }
    }
    (inserted, crate::rate(count, since.elapsed()))
}
