//! The limits of the contract, checked the same way by every store.

use std::time::Duration;

use crate::error::StoreError;
use crate::job::{BATCH_LEN_MAX, JobRecord, NAME_LEN_MAX, NewJob, PAYLOAD_LEN_MAX, check_name};
use crate::state::State;
use crate::store::measure::{SAMPLES_MAX, Sample};
use crate::store::{ClearFilter, JobQuery, LEASE_MAX, LEASE_MIN, PAGE_LEN_MAX, SEARCH_LEN_MAX, VERB_LEN_MAX};

/// The most days of history.
pub(crate) const DAYS_MAX: u32 = 90;

fn invalid(tried: &'static str, detail: String) -> StoreError {
    StoreError::Invalid { tried, detail }
}

pub(crate) fn check_batch(batch: &[NewJob]) -> Result<(), StoreError> {
    if batch.len() > BATCH_LEN_MAX {
        return Err(invalid("insert", format!("{} jobs in one batch: at most {BATCH_LEN_MAX}", batch.len())));
    }
    batch.iter().try_for_each(|job| job.validate().map_err(|error| invalid("insert", error.to_string())))
}

/// What was accepted once is accepted again: arguments may be no JSON, for such jobs are kept among the dead.
pub(crate) fn check_restorable(batch: &[JobRecord]) -> Result<(), StoreError> {
    if batch.len() > BATCH_LEN_MAX {
        return Err(invalid("restore", format!("{} jobs in one batch: at most {BATCH_LEN_MAX}", batch.len())));
    }
    for job in batch {
        let wrong = |detail: String| invalid("restore", format!("job {}: {detail}", job.id));
        check_name("kind", &job.kind).map_err(|error| wrong(error.to_string()))?;
        check_name("queue", &job.queue).map_err(|error| wrong(error.to_string()))?;
        if job.payload.len() > PAYLOAD_LEN_MAX {
            return Err(wrong(format!("{} bytes of arguments: at most {PAYLOAD_LEN_MAX}", job.payload.len())));
        }
        if job.state == State::Running {
            return Err(wrong("it is running, and belongs to its member".to_owned()));
        }
    }
    Ok(())
}

pub(crate) fn check_len(tried: &'static str, len: usize) -> Result<(), StoreError> {
    if len <= VERB_LEN_MAX { Ok(()) } else { Err(invalid(tried, format!("{len} at a time: at most {VERB_LEN_MAX}"))) }
}

pub(crate) fn check_lease(lease: Duration) -> Result<(), StoreError> {
    if (LEASE_MIN..=LEASE_MAX).contains(&lease) {
        return Ok(());
    }
    Err(invalid("join", format!("a lease of {lease:?}: must be between {LEASE_MIN:?} and {LEASE_MAX:?}")))
}

pub(crate) fn check_clearable(filter: &ClearFilter) -> Result<(), StoreError> {
    if filter.state == Some(State::Running) {
        return Err(invalid("clear", "running jobs belong to their member: cancel them instead".to_owned()));
    }
    Ok(())
}

pub(crate) fn check_page(query: &JobQuery) -> Result<(), StoreError> {
    if !(1..=PAGE_LEN_MAX).contains(&query.limit) {
        let detail = format!("{} jobs on a page: must be between 1 and {PAGE_LEN_MAX}", query.limit);
        return Err(invalid("list", detail));
    }
    let len = query.search.as_ref().map_or(0, String::len);
    if len > SEARCH_LEN_MAX {
        return Err(invalid("list", format!("a search for {len} bytes: at most {SEARCH_LEN_MAX}")));
    }
    Ok(())
}

pub(crate) fn check_samples(samples: &[Sample]) -> Result<(), StoreError> {
    if samples.len() > SAMPLES_MAX {
        return Err(invalid("record", format!("{} samples in one call: at most {SAMPLES_MAX}", samples.len())));
    }
    let is_long = |name: &String| name.len() > NAME_LEN_MAX;
    match samples.iter().flat_map(|sample| [&sample.kind, &sample.queue]).find(|name| is_long(name)) {
        None => Ok(()),
        Some(name) => {
            let detail = format!("a name of {} bytes in a sample: at most {NAME_LEN_MAX}", name.len());
            Err(invalid("record", detail))
        }
    }
}

pub(crate) fn check_days(days: u32) -> Result<(), StoreError> {
    if (1..=DAYS_MAX).contains(&days) {
        return Ok(());
    }
    Err(invalid("history", format!("{days} days: must be between 1 and {DAYS_MAX}")))
}
