//! apalis on Redis, tuned: large batches, no events, no results kept.

use std::sync::Arc;

use anyhow::Result;
use apalis::prelude::*;
use apalis_redis::{Config, RedisStorage};

use crate::tally::Tally;
use crate::{Noop, Task, batches, noop, timed, told_to_end};

const BATCH_LEN: usize = 100;

pub async fn run(task: Task) -> Result<()> {
    let config = Config { emit_events: false, persist_results: false, ..Config::default().batch_size(BATCH_LEN) };
    let connection = apalis_redis::connect(task.url.as_str()).await?;
    let mut storage = RedisStorage::<Noop>::new(connection).with_config(config);
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
