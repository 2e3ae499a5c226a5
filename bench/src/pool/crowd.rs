//! `crowd`: far more threads than cores, with and without neighbours that want the cores for themselves.
//!
//! The neighbours are processes, so that their time is not counted as the pool's.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::adds;
use super::peers::{RayonInPlace, TaskPool, started};
use super::windlass::Windlass;
use crate::suite::measure::{Extra, Panel, Role, Row, Suite, Unit};
use crate::suite::tally;

const FEW: usize = 2;
const MANY: usize = 64;
const NEIGHBOURS: usize = 2;

/// For the scheduler to spread the neighbours.
const SETTLE: Duration = Duration::from_millis(50);

/// The word that makes this program a neighbour.
pub const NEIGHBOUR: &str = "neighbour";

const FLAT_TASKS: usize = 100_000;

/// A workload of many tasks, all alike.
#[derive(Clone, Copy)]
struct Work {
    tasks: usize,
    task: fn(),
    counted: u64,
}

const SHARE: Extra = Extra { label: "% of 2 threads alone", of: share };

/// Throughput in percent of what the same library does with few threads and no neighbours.
fn share(row: &Row, rows: &[Row]) -> Option<f64> {
    let library = row.name.split(',').next()?;
    let alone = rows.iter().find(|row| row.name.starts_with(library))?;
    Some(alone.median / row.median * 100.0)
}

pub fn run(suite: &mut Suite) {
    let work = Work { tasks: FLAT_TASKS, task: tally::add_one, counted: FLAT_TASKS as u64 };
    suite.measure(panel("100 000 empty tasks from outside, in a crowd", work));
    let work = Work { tasks: adds::TASKS, task: adds::add_up, counted: adds::TASKS as u64 * adds::ADDS };
    suite.measure(panel("500 000 tasks of 100 adds from outside, in a crowd", work));
}

/// What follows the library in a subject's name.
fn conditions(name: &str) -> &str {
    name.split_once(',').map_or("", |(_library, conditions)| conditions)
}

fn panel(title: &str, work: Work) -> Panel {
    let mut panel = Panel::new("crowd", title, Unit::Milliseconds).extra(SHARE).ranked_by(conditions);
    add_all::<RayonInPlace>(&mut panel, Role::Peer, "rayon", work);
    add_all::<Windlass>(&mut panel, Role::Windlass, "windlass", work);
    panel
}

fn add_all<P: TaskPool>(panel: &mut Panel, role: Role, name: &str, work: Work) {
    for (neighbours, words) in [(0, ""), (NEIGHBOURS, ", 2 neighbours")] {
        for threads in [FEW, MANY] {
            panel.add(role, format!("{name}, {threads} threads{words}"), move |clock| {
                let mut pool: P = started(threads, adds::WARM_UP);
                let busy: Vec<Neighbour> = (0..neighbours).map(|_| Neighbour::start()).collect();
                sleep(SETTLE);
                tally::verify(work.counted, || clock.time(|| pool.flat(work.tasks, work.task)));
                drop(busy);
            });
        }
    }
}

/// A process that keeps a core busy. It ends when this is dropped, or when this process ends.
struct Neighbour(Child);

impl Neighbour {
    /// Starts it, and waits until it is busy.
    fn start() -> Neighbour {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([super::NAME, NEIGHBOUR]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = [0];
        child
            .stdout
            .as_mut()
            .expect("it is piped")
            .read_exact(&mut ready)
            .expect("the neighbour says that it is there");
        Neighbour(child)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It reads the end of its input, and ends.
        drop(self.0.stdin.take());
        self.0.wait().expect("the neighbour ends");
    }
}

/// Is a neighbour until the input ends.
pub fn be_neighbour() {
    std::thread::spawn(|| {
        loop {
            std::hint::spin_loop();
        }
    });
    println!();
    // Whatever comes, an error too, is the end.
    let _ = std::io::stdin().read(&mut [0]);
}
