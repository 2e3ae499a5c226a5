//! Reads what is in a store: all that a command line, a dashboard or a test may see.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::error::Error;
use crate::job::{JobId, JobRecord};
use crate::store::{
    Counts, DayTotals, Finding, JobPage, JobQuery, ProcessInfo, QueueInfo, Sample, Series, SeriesQuery, Store,
    StoreInfo,
};

/// Looks, and changes nothing. Cheap to clone, may be shared.
#[derive(Debug, Clone)]
pub struct Inspector {
    store: Arc<dyn Store>,
}

impl Inspector {
    /// An inspector of `store`.
    pub fn new(store: Arc<dyn Store>) -> Inspector {
        Inspector { store }
    }

    /// What the store is, and where.
    pub fn describe(&self) -> StoreInfo {
        self.store.describe()
    }

    /// The present, by the store's clock.
    pub fn now(&self) -> Timestamp {
        self.store.now()
    }

    /// Everything known of one job.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Store`].
    pub async fn job(&self, id: JobId) -> Result<JobRecord, Error> {
        self.store.get(id).await?.ok_or_else(|| Error::NotFound { id: id.to_string() })
    }

    /// One page of jobs; see [`Store::list`].
    ///
    /// # Errors
    /// [`Error::Store`], also for a page beyond the limit.
    pub async fn list(&self, query: JobQuery) -> Result<JobPage, Error> {
        Ok(self.store.list(query).await?)
    }

    /// How many jobs are in each state, and what has happened in all.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn counts(&self) -> Result<Counts, Error> {
        Ok(self.store.counts().await?)
    }

    /// Every queue that holds jobs or is paused.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn queues(&self) -> Result<Vec<QueueInfo>, Error> {
        Ok(self.store.queues().await?)
    }

    /// Every process that works on the store.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn processes(&self) -> Result<Vec<ProcessInfo>, Error> {
        Ok(self.store.processes().await?)
    }

    /// What happened on each of the last `days` days, newest first.
    ///
    /// # Errors
    /// [`Error::Store`], also for days outside 1 to 90.
    pub async fn history(&self, days: u32) -> Result<Vec<DayTotals>, Error> {
        Ok(self.store.history(days).await?)
    }

    /// Measurements over time; see [`crate::store::measure`].
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn series(&self, query: SeriesQuery) -> Result<Series, Error> {
        Ok(self.store.series(query).await?)
    }

    /// What each pair of kind and queue came to since it was first seen, in that order.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn meters(&self) -> Result<Vec<Sample>, Error> {
        Ok(self.store.meters().await?)
    }

    /// Examines the store.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn check(&self) -> Result<Vec<Finding>, Error> {
        Ok(self.store.check().await?)
    }
}
