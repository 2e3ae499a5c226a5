//! A store in a folder, a server on it, and the commands that people would type.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use windlass_testbed::{program::Program, wait};

/// How long anything may take here that should be over in a moment.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A folder with a store, and a server that works it. The server is ended when this is dropped.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    server: Option<Program>,
}

impl Bench {
    /// A store that nobody works.
    pub(crate) fn new() -> Bench {
        Bench { dir: tempfile::tempdir().unwrap(), server: None }
    }

    /// A store, and a server with these flags.
    pub(crate) fn serving(flags: &[&str]) -> Bench {
        let mut bench = Bench::new();
        bench.serve(flags, &[]);
        bench
    }

    /// Starts the server with these flags and variables.
    pub(crate) fn serve(&mut self, flags: &[&str], variables: &[(&str, &str)]) {
        self.serve_with(Path::new(env!("CARGO_BIN_EXE_windlass")), flags, variables);
    }

    /// Starts the server from another copy of the program.
    pub(crate) fn serve_with(&mut self, image: &Path, flags: &[&str], variables: &[(&str, &str)]) {
        let mut command = at_home(Command::new(image), self.dir.path());
        command.args(["serve", "--lease", "2s"]).args(flags);
        command.env("WINDLASS_POLL_INTERVAL", "20ms").envs(variables.iter().copied());
        self.server = Some(Program::start(&mut command, &self.dir.path().join("serve.log")).unwrap());
    }

    pub(crate) fn server(&mut self) -> &mut Program {
        self.server.as_mut().expect("a server was started")
    }

    /// Stops the server gracefully and answers what it printed.
    pub(crate) fn stop(&mut self) -> String {
        let server = self.server();
        server.signal(Signal::TERM).unwrap();
        assert!(server.wait(LIMIT).unwrap().success(), "{}", server.tail());
        server.printed().unwrap()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        at_home(command, self.dir.path()).args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs a command, expects success, and answers what it printed.
    pub(crate) fn printed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command, expects it to refuse its arguments, and answers its complaint.
    pub(crate) fn complaint(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
        complaint
    }

    /// Enqueues a job that is kept when it is done, and answers its id.
    pub(crate) fn enqueue(&self, arguments: &[&str]) -> String {
        self.printed(&[&["enqueue", "--keep", "1h"], arguments].concat()).trim().to_owned()
    }

    pub(crate) fn job(&self, id: &str) -> Value {
        serde_json::from_str(&self.printed(&["jobs", "show", id, "--json"])).unwrap()
    }

    /// Waits until the job is in a state.
    pub(crate) fn until(&self, id: &str, state: &str) -> Value {
        let what = format!("job {id} to be {state}");
        let found = wait::until(&what, LIMIT, || {
            let job = self.job(id);
            Ok((job["state"] == state).then_some(job))
        });
        found.unwrap_or_else(|error| panic!("{error:#}: {}", self.job(id)))
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait::until(what, LIMIT, || Ok(is_so().then_some(()))).unwrap();
}

fn at_home(mut command: Command, home: &Path) -> Command {
    command.current_dir(home).env_remove("WINDLASS_URL").env_remove("RUST_LOG").env_remove("TRACEPARENT");
    command
}
