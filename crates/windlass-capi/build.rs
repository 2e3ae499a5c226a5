//! How the shared library is linked: its name for the loader, and that it stays once it was loaded.
#![forbid(unsafe_code)]

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libwindlass.so.0");
        // Threads may hold thread-local storage of the library until they end: to unload it would take their code away.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
