//! What the headers declare is what the libraries export.

use std::collections::BTreeSet;
use std::process::Command;

use crate::compile::{answers, crate_root, folder, library, run, skip};

/// The functions a header declares: names at the beginning of a line's declaration, before a bracket.
fn declared(header: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(crate_root().join("include").join(header)).expect("the header can be read");
    let lines = text.lines().filter(|line| !line.starts_with(['/', ' ', '#', '}', 't']) || line.starts_with("thread"));
    let before_bracket = lines.filter_map(|line| line.split_once('(')).map(|(before, _)| before);
    let name = |before: &str| before.rsplit([' ', '*']).next().map(str::to_owned);
    before_bracket.filter_map(name).filter(|name| !name.is_empty()).collect()
}

fn exported() -> BTreeSet<String> {
    let library = library("libwindlass_capi.so");
    let output = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.split(' ').next_back()).map(str::to_owned).collect()
}

#[test]
fn the_shared_library_exports_what_the_headers_declare_and_nothing_else() {
    if !answers("nm") {
        return skip("nm is not installed");
    }
    let mut declared = declared("pool.h");
    assert_eq!(declared.len(), 3, "{declared:?}");
    declared.append(&mut self::declared("windlass.h"));

    assert_eq!(declared, exported());
}

#[test]
fn the_shared_library_says_its_name_to_the_loader_and_stays() {
    if !answers("readelf") {
        return skip("readelf is not installed");
    }
    let output = run(Command::new("readelf").arg("-d").arg(library("libwindlass_capi.so")));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();

    assert!(text.contains("libwindlass.so.0") && text.contains("NODELETE"), "{text}");
}

/// CA-15: each header by itself, in every version of the languages that it says it is for.
#[test]
fn ca15_the_headers_are_good_in_every_version_of_c_and_cpp() {
    let folder = folder("headers");
    let both = ["pool.h", "windlass.h"];
    let (c, cpp): (&[&str], &[&str]) = (&["c99", "c11", "c17"], &["c++11", "c++17", "c++20"]);
    let languages: [(&str, &str, &[&str], &[&str]); 6] = [
        ("cc", "c", c, &both),
        ("clang", "c", c, &both),
        ("g++", "cpp", cpp, &both),
        ("clang++", "cpp", cpp, &both),
        ("g++", "cpp", &["c++20"], &["windlass.hpp"]),
        ("clang++", "cpp", &["c++20"], &["windlass.hpp"]),
    ];
    for (compiler, extension, standards, headers) in languages {
        if !answers(compiler) {
            skip(&format!("{compiler} is not installed"));
            continue;
        }
        for header in headers {
            let source = folder.join(header).with_extension(extension);
            std::fs::write(&source, format!("#include \"{header}\"\n")).expect("a file can be written");
            for standard in standards {
                let mut command = Command::new(compiler);
                command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]);
                command.arg(format!("-std={standard}")).arg("-I").arg(crate_root().join("include"));
                run(command.arg(&source));
            }
        }
    }
}
