//! A graph of arithmetic: `(a + b) * (c + d)`, run again and again with other numbers.
//!
//! What a node returns is read by those after it, without a lock in sight. The inputs are read anew in each run; the plan
//! is made once.

use std::sync::atomic::{AtomicI64, Ordering};

use windlass_pool::{Graph, Pool};

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
pub(crate) fn main() {
    let pool = Pool::new().expect("the system gives threads");
    let inputs: [AtomicI64; 4] = std::array::from_fn(|_| AtomicI64::new(0));

    let mut graph = Graph::new();
    let [a, b, c, d] = inputs.each_ref().map(|input| graph.add(|| input.load(Ordering::Relaxed)));
    let left = graph.add_from((a, b), |(a, b)| a + b);
    let right = graph.add_from((c, d), |(c, d)| c + d);
    let product = graph.add_from((left, right), |(left, right)| left * right);
    graph.name(product, "product");
    let plan = graph.seal().expect("it has no cycle");

    for numbers in [[1, 2, 3, 4], [10, 20, 30, 40], [-1, 1, 5, 5]] {
        for (input, number) in inputs.iter().zip(numbers) {
            input.store(number, Ordering::Relaxed);
        }
        plan.run(&pool).expect("nobody else runs it");
        let [a, b, c, d] = numbers;
        let value = plan.take(product).expect("the run has ended").expect("the node has run");
        println!("({a} + {b}) * ({c} + {d}) = {value}");
        assert_eq!(value, (a + b) * (c + d));
    }
}
