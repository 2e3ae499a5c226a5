//! `cargo xtask docs`: documents that are generated, and the reference.

use anyhow::{Context as _, Result, ensure};

use crate::shell::{call, cargo, output, root};

/// A document, and the example that prints it.
const GENERATED: &[(&str, &str)] = &[("docs/job_lifecycle.md", "state_table")];

pub(crate) fn run(is_check: bool) -> Result<()> {
    for (path, example) in GENERATED {
        let wanted = output(&mut cargo(&["run", "--quiet", "--package", "windlass", "--example", example]))?;
        let file = root().join(path);
        if is_check {
            let found = std::fs::read_to_string(&file).with_context(|| format!("cannot read {path}"))?;
            ensure!(found == wanted, "{path} is not what the code says: run `cargo xtask docs`");
            println!("{path} is up to date");
        } else {
            std::fs::write(&file, wanted).with_context(|| format!("cannot write {path}"))?;
            println!("wrote {path}");
        }
    }
    // Module stories name private parts: they are for readers of the code as well.
    let arguments = ["doc", "--package", "windlass", "--package", "windlass-pool", "--no-deps", "--all-features"];
    call(cargo(&arguments).env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))
}
