//! Models of the protocols, explored by loom in every order of steps that the memory model allows.
//!
//! `cargo xtask loom` runs them, and then builds each protocol once more with one ordering weakened
//! (`--cfg windlass_weaken="ring"`, `"sleep"`, `"slot"`): the model of that protocol must fail then. A model that
//! cannot fail proves nothing.

mod ring;
mod sleep;
mod slot;
