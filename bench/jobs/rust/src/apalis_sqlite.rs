//! apalis on SQLite, tuned: large batches, a write-ahead log that is not waited for. Results are kept, because without
//! them it writes no outcome at all, and every job would be run again after a restart.

use std::sync::Arc;

use anyhow::Result;
use apalis::prelude::*;
use apalis_sqlite::{Config, SqliteStorage};
use apalis_sqlite::{SqliteConnectOptions, SqlitePool};
use std::str::FromStr as _;

use crate::tally::Tally;
use crate::{Noop, Task, batches, noop, timed, told_to_end};

const BATCH_LEN: usize = 100;

pub async fn run(task: Task) -> Result<()> {
    let options = SqliteConnectOptions::from_str(&task.url)?
        .create_if_missing(true)
        .pragma("journal_mode", "WAL")
        .pragma("synchronous", "NORMAL");
    let pool = SqlitePool::connect_with(options).await?;
    SqliteStorage::setup(&pool).await?;
    let config = Config::default().batch_size(BATCH_LEN);
    let mut storage = SqliteStorage::<Noop>::new(&pool).with_config(config);
    if !task.is_drain {
        return timed(task.count, async {
            for batch in batches(task.count) {
                storage.push_bulk(batch.map(noop).collect()).await?;
            }
            Ok(())
        })
        .await;
    }
    let worker = WorkerBuilder::new("bench")
        .backend(storage)
        .data(Arc::new(Tally::new(task.count)))
        .concurrency(task.concurrency)
        .build(perform);
    Ok(worker.run_until(told_to_end()).await?)
}

async fn perform(job: Noop, tally: Data<Arc<Tally>>) -> Result<(), BoxDynError> {
    tally.add(job.number);
    Ok(())
}
