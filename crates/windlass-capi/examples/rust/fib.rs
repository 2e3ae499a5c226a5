//! Joins, nested as deep as the problem is.

use windlass_pool::Pool;

fn fib(pool: &Pool, n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = pool.join(|| fib(pool, n - 1), || fib(pool, n - 2));
    a + b
}

pub(crate) fn run() -> String {
    let pool = Pool::new().expect("the system gives threads");
    format!("fib(20) = {}\n", fib(&pool, 20))
}

#[allow(dead_code, clippy::print_stdout, reason = "an example shows what it does; a test only calls it")]
fn main() {
    print!("{}", run());
}
