//! Which programs a job may run, where, and with what in their environment.
//!
//! Whoever may enqueue may choose the arguments of an allowed program, so an allowed shell allows everything. A
//! program is listed by its absolute path or by a name that is looked up once, at the start: what appears in the
//! search path later is not run. Links are not followed, for one file may be many programs.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use windlass::config::Allow;
use windlass::{HandlerError, Outcome};

use crate::exec::Exec;
use crate::exit::Usage;

/// The allow-list of this server.
#[derive(Debug)]
pub(crate) struct Rules {
    programs: Programs,
    folders: Vec<PathBuf>,
    variables: Vec<String>,
    search_path: Vec<PathBuf>,
}

#[derive(Debug)]
enum Programs {
    /// Any program, any folder, any variable.
    Any,
    Listed(Vec<Listed>),
}

/// A program as it is listed, and where it is.
#[derive(Debug)]
struct Listed {
    name: String,
    path: PathBuf,
}

/// A program that may run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    pub(super) path: PathBuf,
    pub(super) cwd: Option<PathBuf>,
}

/// Why a job may not run, or not now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Never: the job is what is wrong.
    ForGood {
        /// By which such jobs are grouped.
        class: &'static str,
        reason: String,
    },
    /// Something is missing here that may come.
    ForNow(String),
}

impl Refused {
    pub(super) fn into_outcome(self) -> Outcome {
        match self {
            Refused::ForGood { class, reason } => Outcome::Dead(HandlerError::with_class(class, reason)),
            Refused::ForNow(reason) => Outcome::Failed(HandlerError::with_class("ExecMissing", reason)),
        }
    }
}

fn not_allowed(reason: String) -> Refused {
    Refused::ForGood { class: "ExecNotAllowed", reason }
}

fn invalid(reason: &str) -> Refused {
    Refused::ForGood { class: "ExecInvalid", reason: reason.to_owned() }
}

impl Rules {
    /// Reads and looks up the lists; `None` when no program is allowed.
    ///
    /// # Errors
    /// What is listed and cannot be: a program that is not there, a path that is not absolute, no folder.
    pub(super) fn read(allow: &Allow) -> anyhow::Result<Option<Rules>> {
        let search_path = search_path(std::env::var_os("PATH").as_deref());
        Rules::read_with(allow, search_path)
    }

    fn read_with(allow: &Allow, search_path: Vec<PathBuf>) -> anyhow::Result<Option<Rules>> {
        let programs = match (allow.exec_any, allow.exec.is_empty()) {
            (true, _) => Programs::Any,
            (false, false) => Programs::Listed(
                allow.exec.iter().map(|name| listed(name, &search_path)).collect::<Result<_, Usage>>()?,
            ),
            (false, true) if allow.exec_cwd.is_empty() && allow.exec_env.is_empty() => return Ok(None),
            (false, true) => {
                return Err(Usage(
                    "folders or variables of exec jobs are allowed, and no program: \
                                  list programs with --allow-exec"
                        .to_owned(),
                )
                .into());
            }
        };
        let folders = allow.exec_cwd.iter().map(|folder| listed_folder(folder)).collect::<Result<_, Usage>>()?;
        let variables = allow.exec_env.clone();
        if let Some(name) = variables.iter().find(|name| !is_variable(name)) {
            return Err(Usage(format!("allow_exec_env: {name:?} is no name a job may set")).into());
        }
        Ok(Some(Rules { programs, folders, variables, search_path }))
    }

    /// Whether the job may run, and what exactly.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn admit(&self, job: &Exec) -> Result<Admitted, Refused> {
        let Some(name) = job.argv.first().filter(|name| !name.is_empty()) else {
            return Err(invalid("the job names no program: its argv is empty"));
        };
        let texts = job.argv.iter().chain(job.env.values()).chain(&job.cwd);
        if texts.into_iter().any(|text| text.contains('\0')) {
            return Err(invalid("a NUL character in an argument, a variable or a folder"));
        }
        self.admit_variables(job)?;
        Ok(Admitted { path: self.find(name)?, cwd: job.cwd.as_deref().map(|cwd| self.admit_folder(cwd)).transpose()? })
    }

    fn find(&self, name: &str) -> Result<PathBuf, Refused> {
        match &self.programs {
            Programs::Any if name.contains('/') && !name.starts_with('/') => {
                Err(invalid("a program is named by its absolute path, or by a name without a path"))
            }
            Programs::Any => look_up(name, &self.search_path)
                .ok_or_else(|| Refused::ForNow(format!("there is no program {name:?} on this machine"))),
            Programs::Listed(listed) => {
                let is_it = |entry: &&Listed| entry.name == name || entry.path == Path::new(name);
                let found = listed.iter().find(is_it).map(|entry| entry.path.clone());
                found.ok_or_else(|| {
                    let names: Vec<&str> = listed.iter().map(|entry| entry.name.as_str()).collect();
                    not_allowed(format!("program {name:?} is not allowed here; allowed are {}", names.join(", ")))
                })
            }
        }
    }

    fn admit_variables(&self, job: &Exec) -> Result<(), Refused> {
        for name in job.env.keys() {
            if !is_variable(name) {
                return Err(invalid("a variable's name is empty, has '=' or NUL in it, or begins with WINDLASS_"));
            }
            let is_listed = matches!(self.programs, Programs::Any) || self.variables.contains(name);
            if !is_listed {
                let how = "allow it with --allow-exec-env";
                return Err(not_allowed(format!("variable {name:?} may not be set by jobs here; {how}")));
            }
        }
        Ok(())
    }

    /// The folder without links, so that what was judged is what is used.
    fn admit_folder(&self, cwd: &str) -> Result<PathBuf, Refused> {
        if !cwd.starts_with('/') {
            return Err(invalid("the folder to run in must be an absolute path"));
        }
        let refused = || not_allowed(format!("folder {cwd:?} is not allowed here; allow it with --allow-exec-cwd"));
        let is_any = matches!(self.programs, Programs::Any);
        // Whether a folder exists is nobody's business who may not use it.
        let could_be = |allowed: &PathBuf| Path::new(cwd).starts_with(allowed);
        let real = match std::fs::canonicalize(cwd) {
            Ok(real) => real,
            Err(error) if is_any || self.folders.iter().any(could_be) => {
                return Err(Refused::ForNow(format!("cannot enter folder {cwd:?}: {error}")));
            }
            Err(_) => return Err(refused()),
        };
        let is_allowed = is_any || self.folders.iter().any(|allowed| real.starts_with(allowed));
        if is_allowed { Ok(real) } else { Err(refused()) }
    }
}

/// Whether a job may be allowed to set a variable of that name. What begins with `WINDLASS_` is the server's to say.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !name.starts_with("WINDLASS_")
}

fn listed(name: &str, search_path: &[PathBuf]) -> Result<Listed, Usage> {
    if name.contains('/') && !name.starts_with('/') {
        return Err(Usage(format!("allow_exec: {name:?} must be an absolute path, or a name without a path")));
    }
    match look_up(name, search_path) {
        Some(path) => Ok(Listed { name: name.to_owned(), path }),
        None if name.starts_with('/') => Err(Usage(format!("allow_exec: {name:?} is no program that can be run"))),
        None => Err(Usage(format!("allow_exec: there is no program {name:?} in the search path"))),
    }
}

fn listed_folder(folder: &str) -> Result<PathBuf, Usage> {
    if !folder.starts_with('/') {
        return Err(Usage(format!("allow_exec_cwd: {folder:?} must be an absolute path")));
    }
    let real = std::fs::canonicalize(folder);
    let real = real.map_err(|error| Usage(format!("allow_exec_cwd: cannot use {folder:?}: {error}")))?;
    if real.is_dir() { Ok(real) } else { Err(Usage(format!("allow_exec_cwd: {folder:?} is no folder"))) }
}

/// The absolute folders of a search path; others would depend on where the server was started.
fn search_path(path: Option<&OsStr>) -> Vec<PathBuf> {
    let folders = path.map(std::env::split_paths).into_iter().flatten();
    folders.filter(|folder| folder.is_absolute()).collect()
}

/// Where the program is: an absolute path stands for itself.
fn look_up(name: &str, search_path: &[PathBuf]) -> Option<PathBuf> {
    let candidates = search_path.iter().map(|folder| folder.join(name));
    if name.starts_with('/') {
        return Some(PathBuf::from(name)).filter(|path| is_program(path));
    }
    candidates.into_iter().find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(argv: &[&str]) -> Exec {
        serde_json::from_value(serde_json::json!({ "argv": argv })).unwrap()
    }

    fn with(argv: &[&str], field: &str, value: serde_json::Value) -> Exec {
        let mut fields = serde_json::json!({ "argv": argv });
        fields[field] = value;
        serde_json::from_value(fields).unwrap()
    }

    fn rules(allow: Allow) -> Rules {
        Rules::read_with(&allow, vec![PathBuf::from("/usr/bin"), PathBuf::from("/bin")]).unwrap().unwrap()
    }

    fn only(programs: &[&str]) -> Allow {
        Allow { exec: programs.iter().map(|name| (*name).to_owned()).collect(), ..Allow::default() }
    }

    fn refusal(rules: &Rules, job: &Exec) -> (&'static str, String) {
        match rules.admit(job) {
            Err(Refused::ForGood { class, reason }) => (class, reason),
            Err(Refused::ForNow(reason)) => ("ExecMissing", reason),
            Ok(admitted) => panic!("{admitted:?}"),
        }
    }

    #[test]
    fn nothing_is_allowed_until_it_is_listed() {
        assert!(Rules::read_with(&Allow::default(), Vec::new()).unwrap().is_none());
        let half = Allow { exec_env: vec!["HOME".to_owned()], ..Allow::default() };
        assert!(Rules::read_with(&half, Vec::new()).unwrap_err().to_string().contains("--allow-exec"));
    }

    #[test]
    fn a_listed_program_is_found_by_its_name_and_by_its_path_and_no_other() {
        let rules = rules(only(&["sleep"]));
        let path = rules.admit(&job(&["sleep", "1"])).unwrap().path;

        assert!(path.is_absolute() && path.ends_with("sleep"));
        assert_eq!(rules.admit(&job(&[path.to_str().unwrap()])).unwrap().path, path);
        for other in ["sh", "/bin/sh", "./sleep", "sleep ", "../bin/sleep", "/usr/bin/../bin/sleep", "SLEEP"] {
            let (class, reason) = refusal(&rules, &job(&[other]));
            assert_eq!(class, "ExecNotAllowed", "{other}");
            assert!(reason.contains("allowed are sleep"), "{reason}");
        }
    }

    #[test]
    fn what_is_listed_must_be_there() {
        let read = |allow| Rules::read_with(&allow, vec![PathBuf::from("/bin")]).unwrap_err().to_string();

        assert!(read(only(&["no-such-program"])).contains("search path"));
        assert!(read(only(&["./sleep"])).contains("absolute path"));
        assert!(read(only(&["/etc/passwd"])).contains("no program"));
        assert!(read(Allow { exec_cwd: vec!["tmp".to_owned()], ..only(&["sleep"]) }).contains("absolute path"));
        assert!(read(Allow { exec_cwd: vec!["/no/such".to_owned()], ..only(&["sleep"]) }).contains("/no/such"));
        assert!(read(Allow { exec_env: vec!["WINDLASS_X".to_owned()], ..only(&["sleep"]) }).contains("WINDLASS_X"));
    }

    #[test]
    fn variables_and_folders_are_allowed_one_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("inside"), tempfile::tempdir().unwrap());
        std::fs::create_dir(&inside).unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.join("link")).unwrap();
        let folder = inside.to_str().unwrap().to_owned();
        let rules =
            rules(Allow { exec_env: vec!["LANG".to_owned()], exec_cwd: vec![folder.clone()], ..only(&["sleep"]) });
        let env = |name: &str| with(&["sleep"], "env", serde_json::json!({ name: "x" }));
        let cwd = |path: &str| with(&["sleep"], "cwd", serde_json::json!(path));

        assert!(rules.admit(&env("LANG")).is_ok());
        assert_eq!(refusal(&rules, &env("LD_PRELOAD")).0, "ExecNotAllowed");
        assert_eq!(refusal(&rules, &env("A=B")).0, "ExecInvalid");
        assert!(rules.admit(&cwd(&folder)).unwrap().cwd.is_some());
        for path in [format!("{folder}/link"), format!("{folder}/.."), "/".to_owned(), "/no/such".to_owned()] {
            assert_eq!(refusal(&rules, &cwd(&path)).0, "ExecNotAllowed", "{path}");
        }
        assert_eq!(refusal(&rules, &cwd("inside")).0, "ExecInvalid");
    }

    #[test]
    fn where_any_program_is_allowed_only_nonsense_is_refused() {
        let rules = rules(Allow { exec_any: true, ..Allow::default() });

        assert!(rules.admit(&job(&["sh", "-c", "true"])).is_ok());
        assert_eq!(refusal(&rules, &job(&[])).0, "ExecInvalid");
        assert_eq!(refusal(&rules, &job(&[""])).0, "ExecInvalid");
        assert_eq!(refusal(&rules, &job(&["sh", "a\0b"])).0, "ExecInvalid");
        assert_eq!(refusal(&rules, &job(&["./sh"])).0, "ExecInvalid");
        assert_eq!(refusal(&rules, &job(&["no-such-program"])).0, "ExecMissing");
        assert_eq!(refusal(&rules, &with(&["sh"], "env", serde_json::json!({ "WINDLASS_URL": "x" }))).0, "ExecInvalid");
    }
}
