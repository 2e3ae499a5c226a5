//! `matmul`: a product of two square matrices, a task for each row. The arithmetic is the same for all: three plain
//! loops. What is measured is memory rather than tasks: nobody should be far from half of the loop's time.

use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use windlass_pool::Graph;

use super::engines::THREADS;
use crate::pool::peers::{self, all_workers, with_caller};
use crate::pool::windlass::Kept;
use crate::suite::measure::{Clock, Effort, Panel, Suite, Unit};

/// Rows, samples in one turn, and what C++ took here on another day (see `phases`), in milliseconds.
const SIZES: [(usize, usize, &str); 4] = [
    (128, 5, "dpuyda/scheduling 1.9, Taskflow 0.92"),
    (256, 2, "dpuyda/scheduling 14.4, Taskflow 6.2"),
    (512, 1, "dpuyda/scheduling 117, Taskflow 60"),
    (1_024, 1, "dpuyda/scheduling 947, Taskflow 637"),
];

pub fn run(suite: &mut Suite) {
    let sizes = match suite.effort {
        Effort::Full => &SIZES[..],
        Effort::Quick => &SIZES[..3],
    };
    for (len, samples, recorded) in sizes {
        suite.measure(panel(*len, *samples).note(format!("recorded, not same run: {recorded} ms")));
    }
}

/// The two factors.
#[derive(Clone, Copy)]
pub struct Factors {
    len: usize,
    left: &'static [f64],
    right: &'static [f64],
}

impl Factors {
    pub fn new(len: usize) -> Factors {
        let matrix = |seed: usize| -> &'static [f64] {
            Vec::leak((0..len * len).map(|place| ((place * seed) % 17) as f64).collect())
        };
        Factors { len, left: matrix(7), right: matrix(11) }
    }

    /// A row of the product.
    pub fn multiply(self, row: usize, product: &mut [f64]) {
        let left = &self.left[row * self.len..][..self.len];
        for (column, place) in product.iter_mut().enumerate() {
            *place = (0..self.len).map(|k| left[k] * self.right[k * self.len + column]).sum();
        }
    }
}

/// What comes out, and how to find out whether it is right. Small whole numbers: the sum is exact.
pub fn sum(product: &[f64]) -> f64 {
    product.iter().sum()
}

/// A turn of several samples, each of which must give the right product.
fn sampled(samples: usize, expected: f64, mut multiply: impl FnMut(&mut Clock) -> f64) -> impl FnMut(&mut Clock) {
    move |clock| (0..samples).for_each(|_| assert_eq!(multiply(clock), expected, "a row was lost"))
}

fn panel(len: usize, samples: usize) -> Panel {
    let factors = Factors::new(len);
    let mut product = vec![0.0; len * len];
    product.chunks_mut(len).enumerate().for_each(|(row, product)| factors.multiply(row, product));
    let expected = sum(&product);
    let title = format!("product of {len} × {len} matrices, a task for each row, 2 threads");
    let mut panel = Panel::new("matmul", title, Unit::Milliseconds);
    panel.floor("plain loop", {
        let mut product = vec![0.0; len * len];
        sampled(samples, expected, move |clock| {
            product.fill(0.0);
            clock.time(|| {
                product.chunks_mut(len).enumerate().for_each(|(row, product)| factors.multiply(row, product));
            });
            sum(&product)
        })
    });
    panel.peer(all_workers("rayon par_chunks_mut", THREADS), {
        let (pool, mut product) = (peers::rayon(THREADS), vec![0.0; len * len]);
        sampled(samples, expected, move |clock| {
            product.fill(0.0);
            clock.time(|| {
                pool.install(|| {
                    let rows = product.par_chunks_mut(len).with_max_len(1).enumerate();
                    rows.for_each(|(row, product)| factors.multiply(row, product));
                });
            });
            sum(&product)
        })
    });
    panel.windlass(with_caller("windlass for_each_chunk", THREADS), {
        let (pool, mut product) = (Kept::start(THREADS - 1), vec![0.0; len * len]);
        sampled(samples, expected, move |clock| {
            product.fill(0.0);
            clock.time(|| pool.0.for_each_chunk(&mut product, len, |row, product| factors.multiply(row, product)));
            sum(&product)
        })
    });
    panel.windlass(with_caller("windlass graph, built and run", THREADS), {
        let (pool, mut product) = (Kept::start(THREADS - 1), vec![0.0; len * len]);
        sampled(samples, expected, move |clock| {
            product.fill(0.0);
            clock.time(|| {
                let mut graph = Graph::with_capacity(len + 1);
                let root = graph.add_empty();
                for (row, product) in product.chunks_mut(len).enumerate() {
                    let node = graph.add(move || factors.multiply(row, product));
                    graph.precede(root, node);
                }
                graph.seal().expect("it has no cycles").run(pool.0).expect("nobody else runs it");
            });
            sum(&product)
        })
    });
    panel
}
