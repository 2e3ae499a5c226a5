//! The journal's lines: written one call each by many processes, read back by the judge.
//!
//! A journal is opened for appending and each event is one `write` call of one whole line. Lines of several processes
//! therefore never mix on a local file system, and a process that is killed leaves at most one torn line, at the
//! end. Nothing is synced: a line survives the end of its process, not of its machine; keep the journal outside the
//! disk whose faults are tested.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use super::history::{Event, Fault, FaultKind, History, Phase, Run};

/// Appends events to a file. Share it by reference between threads; other processes may append to the same file.
/// Dropping it loses nothing.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Opens the file at `path` for appending and creates it if it is missing.
    /// # Errors
    /// Whatever the operating system says, with the path.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Journal> {
        let path = path.into();
        match OpenOptions::new().append(true).create(true).open(&path) {
            Ok(file) => Ok(Journal { file, path }),
            Err(error) => Err(context(&path, "cannot open the journal", &error)),
        }
    }

    /// Where it writes to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one event.
    /// # Errors
    /// `InvalidInput` if an id or process is empty or holds a tab or a line break; nothing is written then.
    /// `WriteZero` if the disk took only a part of the line: the journal is torn there, use it no more. Otherwise
    /// whatever the operating system says.
    /// # Cost
    /// One system call; no sync.
    pub fn record(&self, event: &Event) -> io::Result<()> {
        let line = line(event)?;
        let written = loop {
            match (&self.file).write(line.as_bytes()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(context(&self.path, "cannot append to the journal", &error));
                }
                Ok(written) => break written,
            }
        };
        if written < line.len() {
            // The rest is not written by a second call: another process may have appended in between.
            let len = line.len();
            let text = format!(
                "cannot append to the journal {:?}: {written} of {len} bytes were taken; make room and start a new one",
                self.path
            );
            return Err(io::Error::new(io::ErrorKind::WriteZero, text));
        }
        Ok(())
    }
}

impl History {
    /// Takes in every line of a journal and returns how many there were. A last line without its newline is counted
    /// as torn and left out.
    /// # Errors
    /// `InvalidData`, with the number of the line, for a whole line that is no event. The lines before it have been
    /// taken in. Otherwise whatever the reader says.
    pub fn read(&mut self, mut reader: impl BufRead) -> io::Result<u64> {
        let mut lines = 0;
        let mut line = Vec::new();
        loop {
            line.clear();
            reader.read_until(b'\n', &mut line)?;
            match line.split_last() {
                None => return Ok(lines),
                Some((b'\n', text)) => self.record(parse(text).map_err(|why| unreadable(lines + 1, text, &why))?),
                Some(_) => {
                    self.torn_lines += 1;
                    return Ok(lines);
                }
            }
            lines += 1;
        }
    }
}

fn context(path: &Path, what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {path:?}: {error}"))
}

fn unreadable(number: u64, text: &[u8], why: &str) -> io::Error {
    let text = String::from_utf8_lossy(text);
    let message = format!("cannot read line {number} of the journal, {text:?}: {why}");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn line(event: &Event) -> io::Result<String> {
    Ok(match event {
        Event::Sent { id, at, run_at } => {
            let run_at = run_at.map_or("-".to_owned(), |run_at| run_at.to_string());
            format!("sent\t{}\t{at}\t{run_at}\n", field(id)?)
        }
        Event::Acknowledged { id, at } => format!("acked\t{}\t{at}\n", field(id)?),
        Event::Run(Run { phase, id, attempt, run, process, at }) => {
            let (id, process) = (field(id)?, field(process)?);
            format!("{}\t{id}\t{attempt}\t{run}\t{process}\t{at}\n", phase.name())
        }
        Event::Fault(Fault { kind, process, from, until }) => format!("{kind}\t{}\t{from}\t{until}\n", field(process)?),
    })
}

/// Passes on a text that one field can hold.
fn field(text: &str) -> io::Result<&str> {
    if text.is_empty() || text.contains(['\t', '\n', '\r']) {
        let message = format!("cannot journal the name {text:?}: it must not be empty nor hold a tab or a line break");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(text)
}

fn parse(line: &[u8]) -> Result<Event, String> {
    let line = std::str::from_utf8(line).map_err(|error| format!("not UTF-8: {error}"))?;
    let fields: Vec<&str> = line.split('\t').collect();
    let (word, rest) = fields.split_first().ok_or("no fields")?;
    if let Some(phase) = Phase::ALL.into_iter().find(|phase| phase.name() == *word) {
        let [id, attempt, run, process, at] = exactly(rest)?;
        return Ok(Event::Run(Run {
            phase,
            id: name(id)?,
            attempt: number(attempt)?,
            run: number(run)?,
            process: name(process)?,
            at: number(at)?,
        }));
    }
    if let Some(kind) = FaultKind::ALL.into_iter().find(|kind| kind.name() == *word) {
        let [process, from, until] = exactly(rest)?;
        return Ok(Event::Fault(Fault { kind, process: name(process)?, from: number(from)?, until: number(until)? }));
    }
    match *word {
        "sent" => {
            let [id, at, run_at] = exactly(rest)?;
            let run_at = if run_at == "-" { None } else { Some(number(run_at)?) };
            Ok(Event::Sent { id: name(id)?, at: number(at)?, run_at })
        }
        "acked" => {
            let [id, at] = exactly(rest)?;
            Ok(Event::Acknowledged { id: name(id)?, at: number(at)? })
        }
        _ => Err(format!("no event is called {word:?}")),
    }
}

fn exactly<'a, const N: usize>(fields: &[&'a str]) -> Result<[&'a str; N], String> {
    let found = fields.len();
    fields.try_into().map_err(|_| format!("{found} fields follow the first, {N} are needed"))
}

fn name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("a name is empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn number<T: std::str::FromStr<Err = std::num::ParseIntError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("{text:?} is not the number it should be: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    fn any_name() -> impl Strategy<Value = String> {
        "[^\\t\\r\\n]{1,12}"
    }

    fn any_event() -> impl Strategy<Value = Event> {
        let sent = (any_name(), any::<i64>(), any::<Option<i64>>());
        let acknowledged = (any_name(), any::<i64>());
        let phase = prop::sample::select(Phase::ALL.to_vec());
        let run = (phase, any_name(), any::<u32>(), any::<u64>(), any_name(), any::<i64>());
        let kind = prop::sample::select(FaultKind::ALL.to_vec());
        let fault = (kind, any_name(), any::<i64>(), any::<i64>());
        prop_oneof![
            sent.prop_map(|(id, at, run_at)| Event::Sent { id, at, run_at }),
            acknowledged.prop_map(|(id, at)| Event::Acknowledged { id, at }),
            run.prop_map(|(phase, id, attempt, run, process, at)| {
                Event::Run(Run { phase, id, attempt, run, process, at })
            }),
            fault.prop_map(|(kind, process, from, until)| { Event::Fault(Fault { kind, process, from, until }) }),
        ]
    }

    fn acked(id: &str, at: i64) -> Event {
        Event::Acknowledged { id: id.to_owned(), at }
    }

    fn new_journal() -> (TempDir, Journal) {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::open(folder.path().join("journal")).unwrap();
        (folder, journal)
    }

    proptest! {
        #[test]
        fn every_event_is_read_back_as_it_was_recorded(event in any_event()) {
            let (_folder, journal) = new_journal();
            journal.record(&event).unwrap();

            let bytes = std::fs::read(journal.path()).unwrap();

            let (newline, text) = bytes.split_last().unwrap();
            prop_assert_eq!(*newline, b'\n');
            prop_assert_eq!(parse(text), Ok(event));
        }

        #[test]
        fn a_journal_cut_anywhere_loses_only_its_last_line(
            events in prop::collection::vec(any_event(), 1..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let (_folder, journal) = new_journal();
            events.iter().for_each(|event| journal.record(event).unwrap());
            let bytes = std::fs::read(journal.path()).unwrap();
            let bytes = &bytes[..cut.index(bytes.len() + 1)];
            let whole = bytes.iter().filter(|byte| **byte == b'\n').count();
            let torn = u64::from(bytes.last().is_some_and(|byte| *byte != b'\n'));
            let mut expected = History::default();
            events[..whole].iter().cloned().for_each(|event| expected.record(event));

            let mut history = History::default();
            let count = history.read(bytes).unwrap();

            prop_assert_eq!((count, history.torn_lines), (whole as u64, torn));
            prop_assert_eq!(history.pushes, expected.pushes);
            prop_assert_eq!(history.runs, expected.runs);
            prop_assert_eq!(history.faults, expected.faults);
        }
    }

    #[test]
    fn a_journal_is_appended_to_by_everyone_who_opens_it() {
        let (_folder, one) = new_journal();
        let other = Journal::open(one.path()).unwrap();

        one.record(&Event::Sent { id: "a".to_owned(), at: 1, run_at: None }).unwrap();
        other.record(&Event::Sent { id: "b".to_owned(), at: 2, run_at: Some(-5) }).unwrap();
        one.record(&acked("a", 3)).unwrap();

        let text = std::fs::read_to_string(one.path()).unwrap();
        assert_eq!(text, "sent\ta\t1\t-\nsent\tb\t2\t-5\nacked\ta\t3\n");
    }

    #[test]
    fn a_journal_that_cannot_be_opened_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();

        let error = Journal::open(folder.path().join("missing/journal")).unwrap_err();

        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("missing/journal"), "{error}");
    }

    #[test]
    fn a_name_that_would_break_the_line_is_refused_and_nothing_is_written() {
        let (_folder, journal) = new_journal();
        for id in ["", "a\tb", "a\nb", "a\r"] {
            let error = journal.record(&acked(id, 1)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{id:?}");
        }

        assert_eq!(std::fs::read(journal.path()).unwrap(), b"");
    }

    #[test]
    fn a_torn_last_line_is_left_out_even_if_it_reads_like_an_event() {
        let mut history = History::default();

        let count = history.read(&b"acked\ta\t10\nacked\tb\t1"[..]).unwrap();

        assert_eq!((count, history.pushes.len()), (1, 1));
        assert_eq!(history.check().torn_lines, 1);
    }

    #[test]
    fn a_whole_line_that_is_no_event_is_an_error_that_names_it() {
        let wrong: [(&[u8], &str); 8] = [
            (b"", "no event is called \"\""),
            (b"begun\ta\t1", "no event is called \"begun\""),
            (b"acked\ta", "1 fields follow the first, 2 are needed"),
            (b"acked\ta\t1\t2", "3 fields follow the first, 2 are needed"),
            (b"acked\t\t1", "a name is empty"),
            (b"acked\ta\tnoon", "\"noon\" is not the number it should be"),
            (b"started\ta\t1\t-1\tp\t5", "\"-1\" is not the number it should be"),
            (b"acked\t\xff\t1", "not UTF-8"),
        ];
        for (line, why) in wrong {
            let journal = [b"acked\ta\t1\n", line, b"\n"].concat();

            let error = History::default().read(journal.as_slice()).unwrap_err();

            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            let message = error.to_string();
            assert!(message.contains("line 2 of the journal"), "{message}");
            assert!(message.contains(why), "{message}");
        }
    }
}
