//! `cargo xtask tidy`: the rules of the tree that a program can check.
//!
//! Each rule looks at one file's path and text, or at the list of files, and answers what is wrong with file and line.

use anyhow::{Context as _, Result, ensure};

use crate::shell::{command, output, root};

/// A tracked file.
struct File {
    path: String,
    text: String,
}

type Rule = fn(&File) -> Vec<String>;

const RULES: &[Rule] = &[
    unsafe_has_its_place,
    sync_has_its_door,
    outside_world_has_its_files,
    files_tell_their_story,
    nothing_is_left_over,
];

/// The largest file that belongs into the repository.
const FILE_LEN_MAX: u64 = 1 << 20;

pub(crate) fn run() -> Result<()> {
    let paths = output(&mut command("git", &["ls-files", "-z"]))?;
    let mut complaints = Vec::new();
    let mut files = Vec::new();
    for path in paths.split('\0').filter(|path| !path.is_empty()) {
        let full = root().join(path);
        // A file that git knows and that is not there is about to be removed.
        let Ok(facts) = std::fs::metadata(&full) else { continue };
        if facts.len() > FILE_LEN_MAX {
            complaints.push(format!("{path}: {} bytes: the repository is for text", facts.len()));
        } else if let Ok(text) = std::fs::read_to_string(&full) {
            files.push(File { path: path.to_owned(), text });
        }
    }
    for file in &files {
        complaints.extend(RULES.iter().flat_map(|rule| rule(file)));
    }
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).context("cannot read ARCHITECTURE.md")?;
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    complaints.extend(map_is_complete(&map, &paths));
    for complaint in &complaints {
        println!("{complaint}");
    }
    ensure!(complaints.is_empty(), "{} things to tidy", complaints.len());
    println!("{} files are tidy", files.len());
    Ok(())
}

/// The lines of Rust code that hold a word, comments and texts of rules apart, with their numbers.
fn lines_with<'a>(file: &'a File, words: &'a [&'a str]) -> impl Iterator<Item = (usize, &'a str)> {
    let code = |line: &'a str| line.split("//").next().unwrap_or_default();
    let holds = move |line: &&str| words.iter().any(|word| line.contains(word));
    file.text.lines().map(code).enumerate().filter(move |(_, line)| holds(line)).map(|(index, line)| (index + 1, line))
}

fn is_rust(file: &File) -> bool {
    file.path.ends_with(".rs") && !file.path.starts_with("xtask/src/tidy")
}

fn is_under(file: &File, folder: &str) -> bool {
    file.path.starts_with(folder)
}

/// Where `unsafe` may stand: what runs tasks, and what speaks C.
const UNSAFE_PLACES: &[&str] = &["crates/windlass-pool/", "crates/windlass-capi/src/"];

/// `unsafe` only in the pool and at the C border, and forbidden in so many words elsewhere.
fn unsafe_has_its_place(file: &File) -> Vec<String> {
    if !is_rust(file) || UNSAFE_PLACES.iter().any(|place| is_under(file, place)) {
        return Vec::new();
    }
    let mut complaints: Vec<String> = lines_with(file, &["unsafe ", "unsafe{"])
        .filter(|(_, line)| !line.contains("unsafe_code"))
        .map(|(line, _)| format!("{}:{line}: unsafe belongs into windlass-pool or windlass-capi", file.path))
        .collect();
    let is_root = ["src/lib.rs", "src/main.rs"].iter().any(|end| file.path.ends_with(end));
    if is_root && !file.text.contains("#![forbid(unsafe_code)]") {
        complaints.push(format!("{}:1: #![forbid(unsafe_code)] is missing", file.path));
    }
    complaints
}

/// In the pool, atomics and threads come through `sync.rs`, so that loom and shuttle see every one of them.
fn sync_has_its_door(file: &File) -> Vec<String> {
    let doors = ["/sync.rs", "/sync/", "/loom_tests/", "/shuttle_tests/"];
    let is_door = doors.iter().any(|door| file.path.contains(door));
    if !is_rust(file) || !is_under(file, "crates/windlass-pool/src/") || is_door {
        return Vec::new();
    }
    lines_with(file, &["std::sync::atomic", "std::thread", "loom::", "shuttle::", "std::sync::{", "std::sync::Mutex"])
        .map(|(line, _)| format!("{}:{line}: name atomics and threads through sync.rs", file.path))
        .collect()
}

/// The engine asks nobody for the time, the environment or chance but in the files for it.
fn outside_world_has_its_files(file: &File) -> Vec<String> {
    let places = ["clock.rs", "config/mod.rs", "config/load.rs", "entropy.rs"];
    let is_place =
        places.iter().any(|place| file.path.ends_with(place)) || is_under(file, "crates/windlass/src/checker/");
    if !is_rust(file) || !is_under(file, "crates/windlass/src/") || is_place {
        return Vec::new();
    }
    lines_with(file, &["SystemTime::now", "Instant::now", "std::env::", "RandomState", "rand::", "getrandom"])
        .map(|(line, _)| format!("{}:{line}: ask clock.rs, config or entropy.rs", file.path))
        .collect()
}

/// Every Rust file begins with its story.
fn files_tell_their_story(file: &File) -> Vec<String> {
    if !file.path.ends_with(".rs") || file.text.starts_with("//!") {
        return Vec::new();
    }
    vec![format!("{}:1: no module documentation", file.path)]
}

/// No debris, no machine's own paths, no tests put aside.
fn nothing_is_left_over(file: &File) -> Vec<String> {
    let is_code = is_rust(file);
    let debris = ["todo!(", "unimplemented!(", "dbg!(", "FIXME", "#[ignore"];
    let paths = ["/work/", "/root/", "/home/"];
    let mut complaints = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let place = format!("{}:{}", file.path, index + 1);
        if line.ends_with(' ') || line.ends_with('\t') {
            complaints.push(format!("{place}: white space at the end"));
        }
        if is_code && debris.iter().any(|word| line.contains(word)) {
            complaints.push(format!("{place}: something left over"));
        }
        let is_ours = !file.path.starts_with("xtask/src/tidy") && !file.path.ends_with(".lock");
        if is_ours && paths.iter().any(|path| line.contains(path)) {
            complaints.push(format!("{place}: a path of one machine"));
        }
    }
    complaints
}

/// The code map of ARCHITECTURE.md names every source file, and nothing that is not there.
///
/// The map is the first code block below the heading "Code map". A line without indentation is a folder, its path
/// ending with `/`; an indented line begins with paths below that folder, and then says what they are for. A path that
/// ends with `/` stands for everything in it.
fn map_is_complete(architecture: &str, paths: &[&str]) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    let mut folder = String::new();
    let block = architecture.split("## Code map").nth(1).and_then(|rest| rest.split("```").nth(1)).unwrap_or_default();
    for line in block.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        // Several files may share a line; the first word that is no path begins the description.
        let is_path = |word: &&str| word.ends_with(".rs") || word.ends_with('/');
        let mut words = line.split_whitespace().take_while(is_path);
        if line.starts_with(' ') {
            entries.extend(words.map(|word| format!("{folder}{word}")));
        } else {
            words.next().unwrap_or_default().clone_into(&mut folder);
        }
    }
    let folders = ["crates/", "testbed/", "xtask/"];
    let is_source = |path: &&&str| path.ends_with(".rs") && folders.iter().any(|folder| path.starts_with(folder));
    let names = |entry: &String, path: &str| {
        if entry.ends_with('/') { path.starts_with(entry.as_str()) } else { entry == path }
    };
    let unnamed = paths
        .iter()
        .filter(is_source)
        .filter(|path| !entries.iter().any(|entry| names(entry, path)))
        .map(|path| format!("ARCHITECTURE.md: the code map does not name {path}"));
    let gone = entries
        .iter()
        .filter(|entry| !paths.iter().any(|path| names(entry, path)))
        .map(|entry| format!("ARCHITECTURE.md: the code map names {entry}, which is not there"));
    unnamed.chain(gone).collect()
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_outside_its_places_is_found_and_a_comment_about_it_is_not() {
        let text = "//! x\n#![forbid(unsafe_code)]\nunsafe { }\n// unsafe in words\n";

        assert_eq!(unsafe_has_its_place(&file("crates/windlass/src/lib.rs", text)).len(), 1);
        assert!(unsafe_has_its_place(&file("crates/windlass-pool/src/ring.rs", text)).is_empty());
        assert!(unsafe_has_its_place(&file("crates/windlass-capi/src/tasks.rs", text)).is_empty());
        assert_eq!(unsafe_has_its_place(&file("crates/windlass-capi/tests/programs/c.rs", text)).len(), 1);
        assert_eq!(unsafe_has_its_place(&file("crates/windlass/src/lib.rs", "//! x\n")).len(), 1);
    }

    #[test]
    fn an_atomic_past_the_door_is_found() {
        let text = "//! x\nuse std::sync::atomic::AtomicU64;\n";

        assert_eq!(sync_has_its_door(&file("crates/windlass-pool/src/ring.rs", text)).len(), 1);
        assert!(sync_has_its_door(&file("crates/windlass-pool/src/sync.rs", text)).is_empty());
    }

    #[test]
    fn a_clock_read_outside_its_file_is_found() {
        let text = "//! x\nlet now = Instant::now();\n";

        assert_eq!(outside_world_has_its_files(&file("crates/windlass/src/client.rs", text)).len(), 1);
        assert!(outside_world_has_its_files(&file("crates/windlass/src/clock.rs", text)).is_empty());
    }

    #[test]
    fn debris_and_missing_stories_are_found() {
        let text = "fn f() { todo!() } \n";

        assert_eq!(nothing_is_left_over(&file("crates/windlass/src/a.rs", text)).len(), 2);
        assert_eq!(files_tell_their_story(&file("crates/windlass/src/a.rs", text)).len(), 1);
    }

    #[test]
    fn a_map_that_misses_a_file_or_names_one_too_many_is_found() {
        let map = "## Code map\n```text\ncrates/a/src/\n  lib.rs   the story\n  gone.rs  not there\n  deep/    a folder\n```\n";
        let paths = ["crates/a/src/lib.rs", "crates/a/src/new.rs", "crates/a/src/deep/x.rs", "README.md"];

        let complaints = map_is_complete(map, &paths);

        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].contains("new.rs") && complaints[1].contains("gone.rs"));
    }
}
