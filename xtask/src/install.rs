//! `cargo xtask install --prefix DIR`: the headers and libraries of the pool, for C and C++.
//!
//! Below the prefix: `include/` with the three headers; `lib/` with the static and the shared library, `pkgconfig/` and
//! `cmake/windlass/`. Nothing else is touched.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::shell::{call, cargo, root};

/// The version of the workspace, which is that of the library.
const VERSION: &str = env!("CARGO_PKG_VERSION");
const HEADERS: &[&str] = &["pool.h", "windlass.h", "windlass.hpp"];

pub(crate) fn run(options: &[&str]) -> Result<()> {
    let (mut prefix, mut profile) = (None, "release");
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let value = options.next().with_context(|| format!("{option} needs a value"))?;
        match *option {
            "--prefix" => prefix = Some(PathBuf::from(value)),
            "--profile" => profile = value,
            other => bail!("install: no option {other:?}: use --prefix DIR, --profile NAME"),
        }
    }
    let prefix = prefix.context("install: say where: --prefix DIR")?;
    // Paths are written into files: they must mean the same from everywhere.
    let prefix = std::path::absolute(&prefix).with_context(|| format!("{}: no such path", prefix.display()))?;
    call(&mut cargo(&["build", "--lib", "--package", "windlass-capi", "--profile", profile]))?;
    install(&prefix, &built(profile))?;
    println!("installed below {}", prefix.display());
    Ok(())
}

/// Where cargo has put the libraries.
pub(crate) fn built(profile: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    root().join(target).join(if profile == "dev" { "debug" } else { profile })
}

fn install(prefix: &Path, built: &Path) -> Result<()> {
    let source = root().join("crates/windlass-capi");
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    for header in HEADERS {
        copy(&source.join("include").join(header), &include.join(header))?;
    }
    copy(&built.join("libwindlass_capi.a"), &lib.join("libwindlass.a"))?;
    let shared = format!("libwindlass.so.{VERSION}");
    copy(&built.join("libwindlass_capi.so"), &lib.join(&shared))?;
    for name in ["libwindlass.so.0", "libwindlass.so"] {
        link(&shared, &lib.join(name))?;
    }
    write_from(&source, "windlass.pc", &lib.join("pkgconfig"), prefix)?;
    for file in ["windlass-config.cmake", "windlass-config-version.cmake"] {
        write_from(&source, file, &lib.join("cmake/windlass"), prefix)?;
    }
    Ok(())
}

fn folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    ensure!(from.is_file(), "{} is not there", from.display());
    folder_of(to)?;
    // A program that runs keeps the old library: a new file, not the old one changed.
    let fresh = to.with_extension("new");
    fs::copy(from, &fresh).with_context(|| format!("cannot write {}", fresh.display()))?;
    fs::rename(&fresh, to).with_context(|| format!("cannot write {}", to.display()))
}

fn link(to: &str, from: &Path) -> Result<()> {
    // Best effort: what cannot be removed is told by what follows.
    let _ = fs::remove_file(from);
    std::os::unix::fs::symlink(to, from).with_context(|| format!("cannot link {}", from.display()))
}

/// Writes a file from its pattern.
fn write_from(source: &Path, name: &str, folder: &Path, prefix: &Path) -> Result<()> {
    let pattern = source.join("cmake").join(format!("{name}.in"));
    let text = fs::read_to_string(&pattern).with_context(|| format!("cannot read {}", pattern.display()))?;
    let prefix = prefix.to_str().context("the prefix is not UTF-8")?;
    let text = text.replace("@VERSION@", VERSION).replace("@PREFIX@", prefix);
    let file = folder.join(name);
    folder_of(&file)?;
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}
