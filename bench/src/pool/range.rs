//! `range`: the sum of an indexed loop, item by item, in parallel.

use std::hint::black_box;

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

use super::measure::{Clock, Panel, Table, Unit};
use super::{peers, windlass};

const THREADS: usize = 2;

/// Items, and samples in one turn.
const SIZES: [(u64, usize); 2] = [(100_000, 15), (10_000_000, 1)];

pub fn run(tables: &mut Vec<Table>) {
    for (len, samples) in SIZES {
        let title = format!("loop over {} items, per item, 2 threads", crate::report::grouped(len as f64));
        let mut panel = Panel::new("range", title, Unit::Nanoseconds).per(len);
        panel.floor("plain loop", repeated(len, samples, |len| (0..len).map(black_box).sum()));
        let pool = peers::rayon(THREADS);
        panel.peer("rayon par_iter, one item a task", {
            repeated(len, samples, move |len| {
                pool.install(|| (0..len as usize).into_par_iter().with_max_len(1).map(|i| black_box(i) as u64).sum())
            })
        });
        let pool = peers::rayon(THREADS);
        panel.peer("rayon par_iter", {
            repeated(len, samples, move |len| {
                pool.install(|| (0..len as usize).into_par_iter().map(|i| black_box(i) as u64).sum())
            })
        });
        let pool = windlass::pool(THREADS);
        panel.windlass("windlass scope, 64 pieces", repeated(len, samples, move |len| windlass::range_sum(&pool, len)));
        tables.push(panel.run());
    }
}

/// A turn of several samples, each of which must answer the right sum.
fn repeated(len: u64, samples: usize, sum: impl Fn(u64) -> u64) -> impl FnMut(&mut Clock) {
    move |clock| {
        for _ in 0..samples {
            assert_eq!(clock.time(|| sum(black_box(len))), len * (len - 1) / 2, "the sum is wrong");
        }
    }
}
