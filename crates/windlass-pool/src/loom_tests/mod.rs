//! Models of the protocols, explored by loom in every order of steps that the memory model allows, up to a number of
//! preemptions.
//!
//! `cargo xtask loom` runs them, and then builds each protocol once more with one ordering or one step weakened
//! (`--cfg windlass_weaken="NAME"`, the name being the module's): a model of that protocol must fail then. A model that
//! cannot fail proves nothing.
//!
//! A lane is its thread's own (`lane.rs`), and loom's threads are not threads to the standard library: so the models
//! play the lanes themselves, in the order in which the real ones call the steps of each protocol.

//! Loom does not know that nothing comes between the two halves of an exchange in the order of its place: where another
//! thread stores to that place at the same time it explores orders that cannot be. So no model has a fork shown in a cell
//! that a late thief may be exchanging (`forks.rs`): that the thief finds nothing, or the new fork, follows from the
//! exchange alone.

use loom::cell::UnsafeCell;

mod ring;

mod fork;
mod forks;

mod shutdown;
mod sleep;

mod children;
mod continuation;
mod slot;

mod home;

mod burst;
mod graph;

/// A number in plain memory: loom objects to two accesses that nothing has ordered, one of them a write.
struct Watched(UnsafeCell<u32>);

// SAFETY: that it is never accessed by two threads at a time is what the models show.
unsafe impl Send for Watched {}
// SAFETY: as above.
unsafe impl Sync for Watched {}

impl Watched {
    fn new(value: u32) -> Watched {
        Watched(UnsafeCell::new(value))
    }

    fn read(&self) -> u32 {
        // SAFETY: loom objects if another thread writes meanwhile.
        self.0.with(|value| unsafe { *value })
    }

    fn write(&self, value: u32) {
        // SAFETY: loom objects if another thread looks meanwhile.
        self.0.with_mut(|place| unsafe { *place = value });
    }

    fn add_one(&self) {
        // SAFETY: as in `write`.
        self.0.with_mut(|place| unsafe { *place += 1 });
    }
}
