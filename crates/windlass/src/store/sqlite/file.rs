//! The file itself: may it be used at all, and who may read it.
//!
//! Everything here happens before SQLite sees the file, so that a file that is not ours, or too new, or on a file
//! system whose locks cannot be trusted, is refused without a byte of it having been changed.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;

use crate::error::StoreError;
use crate::store::sqlite::schema::{APPLICATION_ID, SCHEMA_VERSION};

/// What every SQLite file begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Where the header keeps the version of the schema and the id of the application, both big-endian.
const USER_VERSION_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;
const HEADER_LEN: usize = 100;

/// Examines the file, or creates it, empty and readable by its owner only.
pub(super) fn prepare(path: &Path) -> Result<(), StoreError> {
    refuse_network(path)?;
    match read_header(path) {
        Ok(Some(header)) => examine(path, &header),
        // Empty: made by us a moment ago, or by another process that is about to fill it.
        Ok(None) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => create(path),
        Err(error) => Err(refused(path, error.to_string(), "check the path and who may read and write it")),
    }
}

fn refused(path: &Path, found: impl Into<String>, hint: &str) -> StoreError {
    StoreError::Refused {
        tried: "open",
        store: format!("sqlite:{}", path.display()),
        found: found.into(),
        hint: hint.to_owned(),
    }
}

fn read_header(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let mut header = Vec::with_capacity(HEADER_LEN);
    File::open(path)?.take(HEADER_LEN as u64).read_to_end(&mut header)?;
    Ok((!header.is_empty()).then_some(header))
}

fn examine(path: &Path, header: &[u8]) -> Result<(), StoreError> {
    let untouched = "it was not touched; name another file";
    if header.len() < HEADER_LEN || &header[..MAGIC.len()] != MAGIC {
        return Err(refused(path, "the file is no SQLite database", untouched));
    }
    let number_at = |at: usize| i32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if number_at(APPLICATION_ID_AT) != APPLICATION_ID {
        return Err(refused(path, "the database belongs to another program", untouched));
    }
    let version = number_at(USER_VERSION_AT);
    if version > SCHEMA_VERSION {
        let found = format!("its schema has version {version}, and this program knows up to {SCHEMA_VERSION}");
        return Err(refused(path, found, "it was not touched; use the newer program"));
    }
    Ok(())
}

fn create(path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        // Another process was faster; SQLite's locks decide who writes the schema.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(refused(path, error.to_string(), "check that the folder exists and may be written to")),
    }
}

/// File systems whose locks do not hold between machines, or may not: SQLite's log needs shared memory and locks that
/// do.
const NETWORK_FILE_SYSTEMS: &[(u32, &str)] = &[
    (0x0000_6969, "nfs"),
    (0x0000_517b, "smb"),
    (0xfe53_4d42, "smb2"),
    (0xff53_4d42, "cifs"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "afs"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x7375_7245, "coda"),
];

#[cfg(target_os = "linux")]
fn refuse_network(path: &Path) -> Result<(), StoreError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Ok(facts) = rustix::fs::statfs(folder) else {
        return Err(refused(path, format!("no folder {:?}", folder.display()), "create it first"));
    };
    match network_name(facts.f_type as u32) {
        None => Ok(()),
        Some(name) => {
            let found = format!("{:?} is on a network file system ({name})", folder.display());
            Err(refused(path, found, "its locks cannot be trusted: use a local disk"))
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn refuse_network(_path: &Path) -> Result<(), StoreError> {
    Ok(())
}

#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux tells the kind of a file system so"))]
fn network_name(kind: u32) -> Option<&'static str> {
    NETWORK_FILE_SYSTEMS.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_number_and_local_ones_are_not_among_them() {
        assert_eq!(network_name(0x6969), Some("nfs"));
        for local in [0xef53, 0x0102_1994, 0x5846_5342, 0x9123_683e, 0x794c_7630] {
            assert_eq!(network_name(local), None, "{local:x}");
        }
    }

    #[test]
    fn a_file_that_is_not_ours_is_refused_and_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.txt");
        std::fs::write(&path, "dear diary").unwrap();

        let error = prepare(&path).unwrap_err().to_string();

        assert!(error.contains("no SQLite database"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"dear diary");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = prepare(Path::new("/nowhere/at/all/jobs.db")).unwrap_err().to_string();

        assert!(error.contains("/nowhere/at/all"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_may_be_read_by_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs.db");

        prepare(&path).unwrap();

        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
