//! `(a + b) * (c + d)` as a graph that is built once and run three times.

use std::sync::atomic::{AtomicI64, Ordering};

use windlass_pool::{Graph, Pool};

pub(crate) fn run() -> String {
    let pool = Pool::new().expect("the system gives threads");
    let start = AtomicI64::new(0);
    let mut graph = Graph::new();
    let [a, b, c, d] = [0, 1, 2, 3].map(|offset| {
        graph.add({
            let start = &start;
            move || start.load(Ordering::Relaxed) + offset
        })
    });
    let ab = graph.add_from((a, b), |(a, b)| a + b);
    let cd = graph.add_from((c, d), |(c, d)| c + d);
    let product = graph.add_from((ab, cd), |(ab, cd)| ab * cd);
    let plan = graph.seal().expect("it has no cycle");
    let run_once = |number| {
        start.store(number, Ordering::Relaxed);
        plan.run(&pool).expect("nobody else runs it");
        let product = plan.take(product).expect("the run has ended").expect("the node has run");
        format!("{product}\n")
    };
    (1..=3).map(run_once).collect()
}

#[allow(dead_code, clippy::print_stdout, reason = "an example shows what it does; a test only calls it")]
fn main() {
    print!("{}", run());
}
