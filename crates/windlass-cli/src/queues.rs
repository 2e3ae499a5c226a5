//! `windlass queues`: the lines jobs wait in.

use std::time::Duration;

use crate::{Common, output, store, time};

pub(crate) fn run(common: &Common) -> anyhow::Result<()> {
    let opened = store::open(common)?;
    let queues = opened.wait(opened.inspector().queues())?;
    if common.json {
        return output::json(&queues);
    }
    let row = |queue: &windlass::store::QueueInfo| {
        vec![
            queue.name.clone(),
            output::grouped(queue.ready),
            output::grouped(queue.running),
            output::grouped(queue.waiting),
            if queue.ready > 0 { time::span(Duration::from_millis(queue.latency_ms)) } else { "–".to_owned() },
            if queue.paused { "paused".to_owned() } else { String::new() },
        ]
    };
    let header = ["queue", "ready", "running", "waiting", "latency", ""];
    output::table(&header, queues.iter().map(row).collect(), "no queue holds a job")
}
