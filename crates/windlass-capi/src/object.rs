//! Groups, graphs and bursts: values behind handles.

use std::cell::UnsafeCell;
use std::ops::Deref;

use crate::life::{Kind, Left, Life, Name, Opaque, Places, parse, stale, to_number};
use crate::status::Failure;

/// A value, or the room for one.
struct Object<T> {
    life: Life,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is put in and taken out by whoever has the place alone (`life.rs`), and shared in between.
unsafe impl<T: Send + Sync> Sync for Object<T> {}

/// All values of one kind.
pub(crate) struct Table<T: 'static> {
    kind: Kind,
    places: Places<Object<T>>,
}

/// A value that stays while this is held.
pub(crate) struct Held<T: Send + Sync + 'static> {
    table: &'static Table<T>,
    object: &'static Object<T>,
    index: u32,
    pub(crate) number: u64,
}

impl<T: Send + Sync + 'static> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value was put in before the handle was given out, and the hold keeps it.
        unsafe { &*self.object.value.get() }.as_ref().expect("a held place has a value")
    }
}

impl<T: Send + Sync + 'static> Held<T> {
    /// A hold that was counted already.
    fn of_another_hold(&self) -> Held<T> {
        Held { table: self.table, object: self.object, index: self.index, number: self.number }
    }
}

impl<T: Send + Sync + 'static> Clone for Held<T> {
    fn clone(&self) -> Self {
        self.object.life.hold();
        self.of_another_hold()
    }
}

impl<T: Send + Sync + 'static> Drop for Held<T> {
    fn drop(&mut self) {
        if self.object.life.let_go() == Left::Others {
            return;
        }
        // SAFETY: nobody else holds the place.
        let value = unsafe { &mut *self.object.value.get() }.take();
        // The value may do anything in its end: not before the place can be used again.
        self.object.life.end();
        self.table.places.give_back(std::iter::once(self.index));
        drop(value);
    }
}

impl<T: Send + Sync + 'static> Table<T> {
    pub(crate) const fn new(kind: Kind) -> Table<T> {
        Table { kind, places: Places::new() }
    }

    /// Gives a value a handle.
    pub(crate) fn add(&'static self, value: T) -> Opaque {
        let index = self.places.take_one(|| Object { life: Life::new(), value: UnsafeCell::new(None) });
        let object = self.places.get(index).expect("an index that was given out");
        // SAFETY: the place is free, and the caller's.
        unsafe { *object.value.get() = Some(value) };
        let generation = object.life.begin(true, 1);
        to_number(self.kind, Name { generation, index }) as Opaque
    }

    /// The value behind a handle.
    pub(crate) fn get(&'static self, handle: Opaque) -> Result<Held<T>, Failure> {
        let name = parse(self.kind, handle)?;
        let object = self.places.get(name.index).ok_or_else(|| stale(self.kind))?;
        object.life.pin(self.kind, name.generation)?;
        Ok(Held { table: self, object, index: name.index, number: handle as u64 })
    }

    /// Takes the handle away: the value goes when nobody holds it any more.
    pub(crate) fn remove(&'static self, held: Held<T>) -> Result<(), Failure> {
        held.object.life.take_handle(self.kind, (held.number >> 32) as u32)?;
        // The handle's own hold.
        drop(held.of_another_hold());
        Ok(())
    }
}
