//! The frame of a game: a graph for what depends on each other, a burst for what must begin at once.
//!
//! Each frame runs one plan: input, then physics and animation side by side, then culling. What is to be drawn is then
//! sent to render workers that have slept since the last frame; each has a buffer of its own that it never gives away. In
//! the few milliseconds of a frame there is no time to start threads, and between frames there is nothing to do: so the
//! workers sleep, and as few are woken as the frame needs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

use windlass_pool::{Burst, Graph, Pool};

const BODIES: usize = 1_000;
const CELLS: usize = 8;
const FRAMES: usize = 60;

/// Where the bodies are, and which can be seen.
#[derive(Default)]
struct World {
    places: Vec<f32>,
    poses: Vec<f32>,
    visible: Vec<usize>,
    push: f32,
}

/// Some of what is to be drawn.
struct Draw {
    bodies: Vec<usize>,
    drawn: mpsc::Sender<usize>,
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
pub(crate) fn main() {
    let pool = Pool::new().expect("the system gives threads");
    let world = Mutex::new(World { places: vec![0.0; BODIES], poses: vec![0.0; BODIES], ..World::default() });
    let frame = AtomicUsize::new(0);

    let mut graph = Graph::new();
    let input = graph.add(|| {
        let number = frame.fetch_add(1, Ordering::Relaxed);
        world.lock().expect("no node panics").push = if number.is_multiple_of(2) { 1.0 } else { 0.5 };
    });
    // What takes long is done outside the lock, on a copy: the two run side by side.
    let physics = graph.add(|| {
        let (mut places, push) = {
            let world = world.lock().expect("no node panics");
            (world.places.clone(), world.push)
        };
        pool.for_each_mut(&mut places, |place| *place += push);
        world.lock().expect("no node panics").places = places;
    });
    let animation = graph.add(|| {
        let mut poses = world.lock().expect("no node panics").poses.clone();
        pool.for_each_mut(&mut poses, |pose| *pose = (*pose + 0.1) % 1.0);
        world.lock().expect("no node panics").poses = poses;
    });
    let culling = graph.add(|| {
        let mut world = world.lock().expect("no node panics");
        world.visible = (0..BODIES).filter(|body| body % 3 != 0).collect();
    });
    graph.precede(input, [physics, animation]);
    graph.precede([physics, animation], culling);
    let plan = graph.seal().expect("it has no cycle");

    let renderers = renderers(3);
    let drawn: usize = (0..FRAMES)
        .map(|_| {
            plan.run(&pool).expect("one frame at a time");
            draw(&renderers, &world.lock().expect("no node panics").visible)
        })
        .sum();

    println!("{FRAMES} frames, {drawn} bodies drawn");
    assert_eq!(drawn, FRAMES * (BODIES - BODIES.div_ceil(3)));
}

fn renderers(count: usize) -> Burst<Draw> {
    let renderers = Burst::new();
    for _ in 0..count {
        let mut buffer = Vec::with_capacity(BODIES);
        let render = move |draw: Draw| {
            buffer.clear();
            buffer.extend(draw.bodies);
            // The frame that asked for it may have been given up.
            let _ = draw.drawn.send(buffer.len());
        };
        renderers.add_worker(render).expect("the system gives threads");
    }
    renderers
}

/// Draws a frame, and waits for the end of it.
fn draw(renderers: &Burst<Draw>, visible: &[usize]) -> usize {
    let (drawn, is_drawn) = mpsc::channel();
    let draws = visible.chunks(visible.len().div_ceil(CELLS).max(1));
    let draws = draws.map(|bodies| Draw { bodies: bodies.to_vec(), drawn: drawn.clone() });
    assert!(renderers.send_all(draws.collect::<Vec<_>>()).is_ok(), "there are renderers");
    drop(drawn);
    is_drawn.iter().sum()
}
