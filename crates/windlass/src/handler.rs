//! User code for a kind of job.
//!
//! A handler is a plain function whose first parameter is the job. Further parameters are *extractors*:
//! [`Context`], [`State<T>`]. Async functions run on the I/O runtime ([`Handlers::on`]), ordinary ones on the CPU
//! pool ([`Handlers::cpu`]), where they may use its scopes and joins. No macros and no globals are needed:
//!
//! ```
//! # #[cfg(feature = "derive")] {
//! use serde::{Deserialize, Serialize};
//! use windlass::{Context, HandlerError, Handlers, Job, State};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(kind = "mail.send")]
//! struct SendMail { to: String }
//!
//! struct Outbox;
//!
//! async fn send(mail: SendMail, State(outbox): State<Outbox>, ctx: Context) -> Result<(), HandlerError> {
//!     println!("attempt {} to reach {}", ctx.attempt(), mail.to);
//!     Ok(())
//! }
//!
//! let handlers = Handlers::new().state(Outbox).on(send);
//! assert_eq!(handlers.kinds(), ["mail.send"]);
//! # }
//! ```
//!
//! What cannot work is found when the server starts ([`Handlers::validate`]), not when a job arrives: two handlers
//! for one kind, an extractor whose state was never given.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use crate::codec::{DecodeError, decode};
use crate::config::ConfigError;
use crate::context::{Context, States};
use crate::job::{Job, Payload};
use crate::outcome::{IntoOutcome, Outcome};

/// A handler on its way.
pub(crate) type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Decodes the arguments and starts a run of kind `R`.
type Start<R> = dyn Fn(&Payload, Context) -> Result<R, DecodeError> + Send + Sync;

/// A handler, with the type of its job forgotten.
#[derive(Clone)]
pub(crate) enum Call {
    /// Decodes and starts; the future is polled on the I/O runtime.
    Async(Arc<Start<Running>>),
    /// Decodes on the caller's thread; the closure runs on the CPU pool.
    Cpu(Arc<Start<CpuRun>>),
}

/// A CPU handler with its arguments, ready to run.
pub(crate) type CpuRun = Box<dyn FnOnce() -> Outcome + Send>;

/// The handler of one kind.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) call: Call,
    /// The highest payload version it understands.
    pub(crate) version: u32,
    missing: fn(&HandlerStates<'_>) -> Vec<&'static str>,
}

/// Which handler runs which kind, and the values they share. Built once, before the server starts.
#[derive(Default)]
pub struct Handlers {
    by_kind: BTreeMap<String, Registered>,
    doubled: Vec<String>,
    pub(crate) states: States,
}

impl Handlers {
    /// Knows no kinds.
    pub fn new() -> Handlers {
        Handlers::default()
    }

    /// Runs jobs of type `J` with an async function, on the I/O runtime. It must not block: a poll that takes
    /// longer than the configured limit is warned about by name.
    #[must_use]
    pub fn on<J: Job, P>(self, handler: impl Handler<J, P>) -> Handlers {
        fn missing<J: Job, P, H: Handler<J, P>>(_: &H) -> fn(&HandlerStates<'_>) -> Vec<&'static str> {
            H::missing
        }
        let missing = missing::<J, P, _>(&handler);
        let call = move |payload: &Payload, ctx: Context| Ok(handler.call(decode::<J>(payload)?, ctx));
        self.register(J::KIND, Registered { call: Call::Async(Arc::new(call)), version: J::VERSION, missing })
    }

    /// Runs jobs of type `J` with an ordinary function, on the CPU pool.
    #[must_use]
    pub fn cpu<J: Job, P>(self, handler: impl CpuHandler<J, P>) -> Handlers {
        fn missing<J: Job, P, H: CpuHandler<J, P>>(_: &H) -> fn(&HandlerStates<'_>) -> Vec<&'static str> {
            H::missing
        }
        let missing = missing::<J, P, _>(&handler);
        let handler = Arc::new(handler);
        let call = move |payload: &Payload, ctx: Context| {
            let (job, handler) = (decode::<J>(payload)?, Arc::clone(&handler));
            Ok(Box::new(move || handler.call(job, ctx)) as CpuRun)
        };
        self.register(J::KIND, Registered { call: Call::Cpu(Arc::new(call)), version: J::VERSION, missing })
    }

    /// Runs jobs of a kind that has no Rust type with an async function of the raw arguments, whatever their
    /// version.
    #[must_use]
    pub fn raw<F, R, T>(self, kind: &str, handler: F) -> Handlers
    where
        F: Fn(Payload, Context) -> R + Send + Sync + 'static,
        R: Future<Output = T> + Send + 'static,
        T: IntoOutcome,
    {
        let call = move |payload: &Payload, ctx: Context| {
            let run = handler(payload.clone(), ctx);
            Ok(Box::pin(async move { run.await.into_outcome() }) as Running)
        };
        let registered = Registered { call: Call::Async(Arc::new(call)), version: u32::MAX, missing: |_| Vec::new() };
        self.register(kind, registered)
    }

    /// Gives handlers a value to share, found by its type. A later value of the same type replaces an earlier one.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(self, value: T) -> Handlers {
        self.shared_state(Arc::new(value))
    }

    /// Like [`Handlers::state`], for a value that the program goes on using.
    #[must_use]
    pub fn shared_state<T: Send + Sync + 'static>(mut self, value: Arc<T>) -> Handlers {
        self.states.insert(value);
        self
    }

    /// Whether any kind runs on the CPU pool.
    pub(crate) fn want_pool(&self) -> bool {
        self.by_kind.values().any(|handler| matches!(handler.call, Call::Cpu(_)))
    }

    /// The kinds it knows, sorted.
    pub fn kinds(&self) -> Vec<&str> {
        self.by_kind.keys().map(String::as_str).collect()
    }

    /// Checks that every kind has one handler, and that every extractor will find what it wants.
    ///
    /// # Errors
    /// Names the kind, and what is missing.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let error = |kind: &str, allowed: String| ConfigError {
            field: "handlers".to_owned(),
            found: format!("kind {kind:?}"),
            origin: None,
            allowed,
        };
        if let Some(kind) = self.doubled.first() {
            return Err(error(kind, "a kind has one handler: remove the second registration".to_owned()));
        }
        for (kind, handler) in &self.by_kind {
            if let Some(name) = (handler.missing)(&HandlerStates(&self.states)).first() {
                return Err(error(kind, format!("its handler wants State<{name}>: add .state(value)")));
            }
            crate::job::check_name("kind", kind).map_err(|invalid| error(kind, invalid.to_string()))?;
        }
        Ok(())
    }

    pub(crate) fn find(&self, kind: &str) -> Option<&Registered> {
        self.by_kind.get(kind)
    }

    fn register(mut self, kind: &str, handler: Registered) -> Handlers {
        if self.by_kind.insert(kind.to_owned(), handler).is_some() {
            self.doubled.push(kind.to_owned());
        }
        self
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").field("kinds", &self.kinds()).finish_non_exhaustive()
    }
}

/// A value given to [`Handlers::state`], as a parameter of a handler.
#[derive(Debug)]
pub struct State<T>(pub Arc<T>);

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What may be a further parameter of a handler.
pub trait FromContext: Sized + Send {
    /// Takes it out of the run's context.
    fn from_context(ctx: &Context) -> Self;

    /// The type whose state is missing for it, if one is.
    #[doc(hidden)]
    fn missing(_states: &HandlerStates<'_>) -> Option<&'static str> {
        None
    }
}

/// The states a server was given, as extractors see them.
#[doc(hidden)]
#[allow(missing_debug_implementations)]
pub struct HandlerStates<'a>(&'a States);

impl FromContext for Context {
    fn from_context(ctx: &Context) -> Context {
        ctx.clone()
    }
}

impl<T: Send + Sync + 'static> FromContext for State<T> {
    fn from_context(ctx: &Context) -> State<T> {
        State(ctx.state::<T>().expect("Handlers::validate found every state before the server started"))
    }

    fn missing(states: &HandlerStates<'_>) -> Option<&'static str> {
        (!states.0.has::<T>()).then(std::any::type_name::<T>)
    }
}

/// An async function that runs jobs of type `J`. Implemented for functions of a job and up to six extractors.
pub trait Handler<J: Job, P>: Send + Sync + 'static {
    /// Starts a run.
    #[doc(hidden)]
    fn call(&self, job: J, ctx: Context) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;

    /// The types of state its extractors want and were not given.
    #[doc(hidden)]
    fn missing(states: &HandlerStates<'_>) -> Vec<&'static str>;
}

/// A function that runs jobs of type `J` on the CPU pool. Implemented for functions of a job and up to six
/// extractors.
pub trait CpuHandler<J: Job, P>: Send + Sync + 'static {
    /// Runs.
    #[doc(hidden)]
    fn call(&self, job: J, ctx: Context) -> Outcome;

    /// The types of state its extractors want and were not given.
    #[doc(hidden)]
    fn missing(states: &HandlerStates<'_>) -> Vec<&'static str>;
}

macro_rules! handlers_of {
    ($($extractor:ident),*) => {
        impl<F, R, T, J, $($extractor),*> Handler<J, (R, T, $($extractor,)*)> for F
        where
            J: Job,
            F: Fn(J, $($extractor),*) -> R + Send + Sync + 'static,
            R: Future<Output = T> + Send + 'static,
            T: IntoOutcome,
            $($extractor: FromContext,)*
        {
            #[allow(unused_variables)]
            fn call(&self, job: J, ctx: Context) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
                let run = self(job, $($extractor::from_context(&ctx)),*);
                Box::pin(async move { run.await.into_outcome() })
            }

            #[allow(unused_variables)]
            fn missing(states: &HandlerStates<'_>) -> Vec<&'static str> {
                let missing: &[Option<&'static str>] = &[$($extractor::missing(states)),*];
                missing.iter().copied().flatten().collect()
            }
        }

        impl<F, T, J, $($extractor),*> CpuHandler<J, (T, $($extractor,)*)> for F
        where
            J: Job,
            F: Fn(J, $($extractor),*) -> T + Send + Sync + 'static,
            T: IntoOutcome,
            $($extractor: FromContext,)*
        {
            #[allow(unused_variables)]
            fn call(&self, job: J, ctx: Context) -> Outcome {
                self(job, $($extractor::from_context(&ctx)),*).into_outcome()
            }

            #[allow(unused_variables)]
            fn missing(states: &HandlerStates<'_>) -> Vec<&'static str> {
                let missing: &[Option<&'static str>] = &[$($extractor::missing(states)),*];
                missing.iter().copied().flatten().collect()
            }
        }
    };
}

handlers_of!();
handlers_of!(A);
handlers_of!(A, B);
handlers_of!(A, B, C);
handlers_of!(A, B, C, D);
handlers_of!(A, B, C, D, E);
handlers_of!(A, B, C, D, E, G);

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Ping;

    impl Job for Ping {
        const KIND: &'static str = "ping";
    }

    struct Database;

    async fn plain(_: Ping) {}

    async fn wants_state(_: Ping, _db: State<Database>, _ctx: Context) {}

    fn on_the_pool(_: Ping, _ctx: Context) -> Result<(), std::fmt::Error> {
        Ok(())
    }

    #[test]
    fn a_kind_with_two_handlers_is_refused_before_the_start() {
        let error = Handlers::new().on(plain).cpu(on_the_pool).validate().unwrap_err();

        assert!(error.to_string().contains("\"ping\""), "{error}");
    }

    #[test]
    fn a_state_that_was_never_given_is_refused_before_the_start() {
        let error = Handlers::new().on(wants_state).validate().unwrap_err();

        assert!(error.to_string().contains("Database"), "{error}");
        assert!(Handlers::new().on(wants_state).state(Database).validate().is_ok());
    }
}
