//! apalis on Redis, tuned: a large buffer that is filled often. It has no bulk call, so many tasks enqueue at the same
//! time on one connection.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use apalis_07::prelude::*;
use apalis_redis::{Config, ConnectionManager, RedisStorage};

use crate::tally::Tally;
use crate::{Noop, PRODUCER_COUNT, Task, noop, timed, told_to_end};

const BUFFER_LEN: usize = 500;
const POLL_INTERVAL: Duration = Duration::from_millis(3);

pub async fn run(task: Task) -> Result<()> {
    let config = Config::default().set_namespace("bench").set_buffer_size(BUFFER_LEN).set_poll_interval(POLL_INTERVAL);
    let connection = apalis_redis::connect(task.url.as_str()).await?;
    let storage = RedisStorage::<Noop>::new_with_config(connection, config);
    if !task.is_drain {
        return timed(task.count, enqueue(storage, task.count)).await;
    }
    let worker = WorkerBuilder::new("bench")
        .data(Arc::new(Tally::new(task.count)))
        .concurrency(task.concurrency)
        .backend(storage)
        .build_fn(perform);
    Ok(Monitor::new().register(worker).run_with_signal(told_to_end()).await?)
}

async fn perform(job: Noop, tally: Data<Arc<Tally>>) {
    tally.add(job.number);
}

async fn enqueue(storage: RedisStorage<Noop, ConnectionManager>, count: u64) -> Result<()> {
    let producers: Vec<_> = (0..PRODUCER_COUNT)
        .map(|first| {
            let mut storage = storage.clone();
            tokio::spawn(async move {
                for number in (first..count).step_by(PRODUCER_COUNT as usize) {
                    storage.push(noop(number)).await?;
                }
                Ok::<(), anyhow::Error>(())
            })
        })
        .collect();
    for producer in producers {
        producer.await??;
    }
    Ok(())
}
