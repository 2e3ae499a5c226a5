//! Tasks, a result, and a wait.

use windlass_pool::Pool;

pub(crate) fn run() -> String {
    let pool = Pool::new().expect("the system gives threads");
    let greeting = pool.spawn(|| "hello, world\n".to_owned());
    let number = 12;
    let square = pool.spawn(move || number * number);
    format!("{}{}\n", greeting.wait(), square.wait())
}

#[allow(dead_code, clippy::print_stdout, reason = "an example shows what it does; a test only calls it")]
fn main() {
    print!("{}", run());
}
