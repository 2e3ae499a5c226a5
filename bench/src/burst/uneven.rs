//! `uneven`: one long item, and many short ones behind it: no short one should wait for it.

use std::time::Duration;

use burst_pool::BurstPool;

use super::bursters::{Broadcast, Burster, RawUnparks, WindlassAll, WindlassEach, WindlassInTurn};
use super::round::{Item, Round, Work};
use crate::pool::peers::{ChannelPool, Forte, MutexPool, RayonSpawn, Threadpool, Tokio};
use crate::suite::measure::{Panel, Role, Suite, Unit, cpu_time};

const ROUNDS: usize = 200;
const WORKERS: usize = 4;
const SHORT: usize = 20;
const LONG: Duration = Duration::from_millis(2);

pub fn run(suite: &mut Suite) {
    let title = "one item of 2 ms and 20 short ones to 4 sleepers, until the last short one begins";
    let mut panel = Panel::new("uneven", title, Unit::Microseconds).with_spread();
    add::<RawUnparks>(&mut panel, Role::Floor);
    add::<Broadcast>(&mut panel, Role::Peer);
    add::<BurstPool<Item>>(&mut panel, Role::Peer);
    add::<ChannelPool>(&mut panel, Role::Peer);
    add::<MutexPool>(&mut panel, Role::Peer);
    add::<Threadpool>(&mut panel, Role::Peer);
    add::<RayonSpawn>(&mut panel, Role::Peer);
    add::<Tokio>(&mut panel, Role::Peer);
    add::<Forte>(&mut panel, Role::Peer);
    add::<WindlassAll>(&mut panel, Role::Windlass);
    add::<WindlassEach>(&mut panel, Role::Windlass);
    add::<WindlassInTurn>(&mut panel, Role::Windlass);
    suite.measure_rounds(panel, ROUNDS);
}

fn add<B: Burster>(panel: &mut Panel, role: Role) {
    let round = Round::start(SHORT + 1, Work::SpinFirst(LONG));
    let mut burster = B::start(WORKERS, round);
    panel.add(role, B::NAME, move |clock| {
        let cpu = cpu_time();
        let taken = round.play(|| burster.send(round));
        let last = taken[1..].iter().max().expect("there are short ones");
        clock.record(*last, cpu_time() - cpu);
    });
}
