//! `memory`: what a node of a long chain takes, at the highest, from the first node to the end of a run.
//!
//! Each measurement is a process of its own: the highest of this one is somebody else's.

use std::process::Command;

use super::engines::{Engine, Loop, WindlassGraph};
use super::shape::{Shape, verify};
use crate::jobs::memory_kib;
use crate::suite::measure::{Effort, Panel, Role, Suite, Unit};

/// The word that makes this program such a process.
pub const CHILD: &str = "memory-child";

const BY_HAND: &str = "by-hand";
const WINDLASS: &str = "windlass";

pub fn run(suite: &mut Suite) {
    let (power, words) = match suite.effort {
        Effort::Full => (25, "2²⁵"),
        Effort::Quick => (22, "2²²"),
    };
    let nodes: u32 = 1 << power;
    let title = format!("chain of {words} nodes, memory at the highest, per node");
    let mut panel = Panel::new("memory", title, Unit::Bytes).per(u64::from(nodes));
    let mut add = |role, name: &str, engine: &'static str| {
        panel.add(role, name, move |clock| clock.count(asked_of_child(engine, nodes)));
    };
    add(Role::Peer, "boxed closures, lists, counters", BY_HAND);
    add(Role::Windlass, "windlass graph", WINDLASS);
    suite.measure_times(panel, 3);
}

fn asked_of_child(engine: &str, nodes: u32) -> f64 {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args([super::NAME, CHILD, engine, &nodes.to_string()]).output().unwrap();
    assert!(output.status.success(), "the child failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("the child says a number")
}

/// Says how many bytes this process has grown by, at its highest.
pub fn be_child(words: &[String]) {
    let [engine, nodes] = words else {
        panic!("a child is told the engine and the number of nodes");
    };
    let shape = Shape::Chain(nodes.parse().expect("a number of nodes"));
    let grown = match engine.as_str() {
        BY_HAND => grown_by::<Loop>(shape),
        WINDLASS => grown_by::<WindlassGraph>(shape),
        other => panic!("no engine {other:?}"),
    };
    println!("{grown}");
}

fn grown_by<E: Engine>(shape: Shape) -> u64 {
    let pool = E::start_pool();
    let before = memory_kib("VmRSS");
    let mut engine = E::begin(&pool, shape.node_count());
    shape.build(&mut engine);
    let mut ready = engine.seal();
    verify(u64::from(shape.node_count()), || E::run(&mut ready, &pool));
    (memory_kib("VmHWM") - before) * 1_024
}
