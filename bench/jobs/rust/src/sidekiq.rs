//! rusty-sidekiq: it has no bulk call, so many tasks enqueue at the same time.

use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use sidekiq::{Processor, ProcessorConfig, RedisConnectionManager, Worker};

use crate::tally::Tally;
use crate::{Noop, PRODUCER_COUNT, Task, noop, timed, told_to_end};

#[derive(Clone)]
struct NoopWorker {
    tally: Arc<Tally>,
}

#[async_trait]
impl Worker<Noop> for NoopWorker {
    async fn perform(&self, job: Noop) -> sidekiq::Result<()> {
        self.tally.add(job.number);
        Ok(())
    }
}

pub async fn run(task: Task) -> Result<()> {
    let size = if task.is_drain { task.concurrency } else { PRODUCER_COUNT as usize } as u32 + 5;
    let manager = RedisConnectionManager::new(task.url.as_str())?;
    let redis = bb8::Pool::builder().max_size(size).min_idle(size).build(manager).await?;
    if !task.is_drain {
        return timed(task.count, enqueue(redis, task.count)).await;
    }
    let config = ProcessorConfig::default().num_workers(task.concurrency);
    let mut processor = Processor::new(redis, vec!["default".to_owned()]).with_config(config);
    processor.register(NoopWorker { tally: Arc::new(Tally::new(task.count)) });
    let stop = processor.get_cancellation_token();
    let running = tokio::spawn(processor.run());
    told_to_end().await?;
    stop.cancel();
    Ok(running.await?)
}

async fn enqueue(redis: sidekiq::RedisPool, count: u64) -> Result<()> {
    let producers: Vec<_> = (0..PRODUCER_COUNT)
        .map(|first| {
            let redis = redis.clone();
            tokio::spawn(async move {
                for number in (first..count).step_by(PRODUCER_COUNT as usize) {
                    NoopWorker::perform_async(&redis, noop(number)).await?;
                }
                sidekiq::Result::Ok(())
            })
        })
        .collect();
    for producer in producers {
        producer.await??;
    }
    Ok(())
}
