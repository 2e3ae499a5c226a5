//! `range`: an indexed loop in parallel: the sum of its items, and a call for each of them.

use std::hint::black_box;

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

use super::peers::{self, all_workers};
use super::windlass::{self, Crew, Pool};
use crate::report::grouped;
use crate::suite::measure::{Clock, Panel, Suite, Unit};
use crate::suite::tally;

const THREADS: usize = 2;

/// Items, and samples in one turn: back to back, so that all but the first meet workers that are awake.
const SIZES: [(u64, usize); 2] = [(100_000, 15), (10_000_000, 3)];

/// A way to add the numbers below `len`.
type Sum = fn(&Pool, u64) -> u64;

const SUMS: [(&str, Sum); 3] = [
    ("windlass map_reduce", windlass::range_sum),
    ("windlass 64 pieces", windlass::range_sum_in_pieces),
    ("windlass joins to one item", windlass::range_sum_by_items),
];

pub fn run(suite: &mut Suite) {
    for (len, samples) in SIZES {
        suite.measure(sums(len, samples));
        suite.measure(calls(len, samples));
    }
}

fn sums(len: u64, samples: usize) -> Panel {
    let title = format!("sum over {} items, per item, 2 threads", grouped(len as f64));
    let mut panel = Panel::new("range", title, Unit::Nanoseconds).per(len);
    panel.floor("plain loop", repeated(len, samples, |len| (0..len).map(black_box).sum()));
    let pool = peers::rayon(THREADS);
    panel.peer(all_workers("rayon par_iter to one item", THREADS), {
        repeated(len, samples, move |len| {
            pool.install(|| (0..len as usize).into_par_iter().with_max_len(1).map(|i| black_box(i) as u64).sum())
        })
    });
    let pool = peers::rayon(THREADS);
    panel.peer(all_workers("rayon par_iter", THREADS), {
        repeated(len, samples, move |len| {
            pool.install(|| (0..len as usize).into_par_iter().map(|i| black_box(i) as u64).sum())
        })
    });
    for (name, sum) in SUMS {
        let crew = Crew::with_caller(THREADS);
        panel.windlass(crew.named(name), repeated(len, samples, move |len| crew.run(move |pool| sum(pool, len))));
    }
    panel
}

/// A turn of several samples, each of which must answer the right sum.
fn repeated(len: u64, samples: usize, sum: impl Fn(u64) -> u64) -> impl FnMut(&mut Clock) {
    move |clock| {
        for _ in 0..samples {
            assert_eq!(clock.time(|| sum(black_box(len))), sum_below(len), "the sum is wrong");
        }
    }
}

fn calls(len: u64, samples: usize) -> Panel {
    let title = format!("call for each of {} items, per item, 2 threads", grouped(len as f64));
    let mut panel = Panel::new("range", title, Unit::Nanoseconds).per(len);
    panel.floor("plain loop", counted(len, samples, move || (0..len).for_each(tally::add)));
    let pool = peers::rayon(THREADS);
    panel.peer(all_workers("rayon for_each", THREADS), {
        counted(len, samples, move || {
            pool.install(|| (0..len as usize).into_par_iter().for_each(|item| tally::add(item as u64)));
        })
    });
    let crew = Crew::with_caller(THREADS);
    panel.windlass(crew.named("windlass for_each"), {
        counted(len, samples, move || {
            crew.run(move |pool| pool.for_each(0..len as usize, |item| tally::add(item as u64)));
        })
    });
    panel
}

/// A turn of several samples, each of which must call for every item once.
fn counted(len: u64, samples: usize, call_all: impl Fn()) -> impl FnMut(&mut Clock) {
    move |clock| (0..samples).for_each(|_| tally::verify(sum_below(len), || clock.time(&call_all)))
}

fn sum_below(len: u64) -> u64 {
    len * (len - 1) / 2
}
