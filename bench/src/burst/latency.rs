//! `short`, `holding`, `few`, `single` and `hot`: how long items of a burst take to begin.

use std::thread::sleep;
use std::time::Duration;

use burst_pool::BurstPool;

use super::bursters::{self, Broadcast, Burster, RawSpin, RawUnparks, WindlassAll, WindlassEach, WindlassInTurn};
use super::round::{Item, Round, Work};
use crate::pool::peers::{ChannelPool, Forte, MutexPool, RayonSpawn, Threadpool, Tokio};
use crate::suite::measure::{Panel, Role, Suite, Unit, cpu_time};

const ROUNDS: usize = 500;
const FEW_ROUNDS: usize = 200;

/// Items in one turn of those that are hot, and the pause before each.
const HOT_SAMPLES: usize = 300;
const HOT_PAUSE: Duration = Duration::from_micros(2);

pub fn run_short(suite: &mut Suite) {
    let title = "10 short items to 10 sleepers, from send to begin";
    suite.measure_rounds(panel("short", title, 10, 10, Work::Nothing), ROUNDS);
}

pub fn run_holding(suite: &mut Suite) {
    for count in [10, 2] {
        let title = format!("{count} items that hold their threads, to {count} sleepers, from send to begin");
        suite.measure_rounds(panel("holding", title, count, count, Work::Hold), ROUNDS);
    }
}

pub fn run_few(suite: &mut Suite) {
    for (items, workers) in [(3, 3), (6, 6), (5, 3)] {
        let title = format!("{items} short items to {workers} sleepers, from send to begin");
        suite.measure_rounds(panel("few", title, items, workers, Work::Nothing), FEW_ROUNDS);
    }
}

pub fn run_single(suite: &mut Suite) {
    let title = "one item to one sleeper, from send to begin";
    suite.measure_rounds(panel("single", title, 1, 1, Work::Nothing), ROUNDS);
}

fn panel(workload: &'static str, title: impl Into<String>, items: usize, workers: usize, work: Work) -> Panel {
    let mut panel = Panel::new(workload, title, Unit::Microseconds).with_spread();
    let size = Size { items, workers, work };
    size.add::<RawUnparks>(&mut panel, Role::Floor);
    size.add::<Broadcast>(&mut panel, Role::Peer);
    size.add::<BurstPool<Item>>(&mut panel, Role::Peer);
    size.add::<ChannelPool>(&mut panel, Role::Peer);
    size.add::<MutexPool>(&mut panel, Role::Peer);
    size.add::<Threadpool>(&mut panel, Role::Peer);
    size.add::<RayonSpawn>(&mut panel, Role::Peer);
    size.add::<Tokio>(&mut panel, Role::Peer);
    if work != Work::Hold {
        // In forte 1.0.0-beta.2 some items that hold their threads are never begun: it wakes too few for them.
        size.add::<Forte>(&mut panel, Role::Peer);
    }
    size.add::<WindlassAll>(&mut panel, Role::Windlass);
    size.add::<WindlassEach>(&mut panel, Role::Windlass);
    size.add::<WindlassInTurn>(&mut panel, Role::Windlass);
    panel
}

/// How many of what are sent to how many.
struct Size {
    items: usize,
    workers: usize,
    work: Work,
}

impl Size {
    fn add<B: Burster>(&self, panel: &mut Panel, role: Role) {
        let round = Round::start(self.items, self.work);
        let mut burster = B::start(self.workers, round);
        panel.add(role, B::NAME, move |clock| round.record(clock, || burster.send(round)));
    }
}

/// One worker that does not sleep. Whoever spins is started for its turn only: it would take a core from the others.
pub fn run_hot(suite: &mut Suite) {
    let samples = suite.effort.share(HOT_SAMPLES);
    let title = "one item to a worker that is awake, from send to begin";
    let mut panel = Panel::new("hot", title, Unit::Microseconds).with_spread();
    add_hot::<RawSpin>(&mut panel, Role::Floor, samples);
    add_hot::<ChannelPool>(&mut panel, Role::Peer, samples);
    add_hot::<Threadpool>(&mut panel, Role::Peer, samples);
    add_hot::<RayonSpawn>(&mut panel, Role::Peer, samples);
    add_hot::<Tokio>(&mut panel, Role::Peer, samples);
    panel.windlass("windlass hot, send", move |clock| {
        let (round, burst) = (Round::start(1, Work::Nothing), bursters::windlass(1));
        let _hot = burst.hot();
        record_hot(clock, samples, round, || assert!(burst.send(round.item(0)).is_ok(), "the burst has a worker"));
    });
    suite.measure(panel);
}

fn add_hot<B: Burster>(panel: &mut Panel, role: Role, samples: usize) {
    panel.add(role, B::NAME, move |clock| {
        let round = Round::start(1, Work::Nothing);
        let mut burster = B::start(1, round);
        record_hot(clock, samples, round, || burster.send(round));
    });
}

/// The sender never sleeps, and pauses only for as long as a worker needs to look again.
fn record_hot(clock: &mut crate::suite::measure::Clock, samples: usize, round: &'static Round, mut send: impl FnMut()) {
    // For the worker to start.
    sleep(Duration::from_millis(1));
    round.play_awake(&mut send);
    let cpu = cpu_time();
    let taken: Vec<Duration> = (0..samples)
        .flat_map(|_| {
            super::round::spin(HOT_PAUSE);
            round.play_awake(&mut send)
        })
        .collect();
    let cpu = (cpu_time() - cpu) / samples as u32;
    taken.into_iter().for_each(|taken| clock.record(taken, cpu));
}
