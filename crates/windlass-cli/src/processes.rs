//! `windlass processes`: who works the queues, and what they run.

use crate::{Common, output, store, time};

pub(crate) fn run(common: &Common) -> anyhow::Result<()> {
    let opened = store::open(common)?;
    let processes = opened.wait(opened.inspector().processes())?;
    if common.json {
        return output::json(&processes);
    }
    let now = opened.now();
    let row = |process: &windlass::store::ProcessInfo| {
        vec![
            process.info.id.to_string(),
            process.info.queues.join(" "),
            format!("{}/{}", process.running, process.info.concurrency),
            output::bytes(process.vitals.rss_bytes),
            time::relative(process.joined_at, now),
            time::relative(process.beat_at, now),
            word_for(process, now).to_owned(),
        ]
    };
    let header = ["process", "queues", "running", "memory", "joined", "last beat", ""];
    output::table(&header, processes.iter().map(row).collect(), "no process works on this store")?;
    for process in processes.iter().filter(|process| !process.jobs.is_empty()) {
        output::line(&format!("\n{} runs:", output::printable(process.info.id.as_str())))?;
        let row = |job: &windlass::store::RunningJob| {
            let since = time::span(now.since(job.leased_at));
            vec![job.id.to_string(), job.kind.clone(), job.queue.clone(), job.attempt.to_string(), since]
        };
        output::table(&["job", "kind", "queue", "attempt", "for"], process.jobs.iter().map(row).collect(), "")?;
    }
    Ok(())
}

/// What is special about a process, in a word.
pub(crate) fn word_for(process: &windlass::store::ProcessInfo, now: windlass::Timestamp) -> &'static str {
    if process.lease_until <= now {
        "lost"
    } else if process.vitals.quiet {
        "quiet"
    } else {
        ""
    }
}
