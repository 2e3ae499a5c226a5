//! `windlass top`: the store on a terminal, live, with keys to act on it.
//!
//! Four threads and one channel. The *keys* thread reads the terminal, the *signals* thread hears what the system says,
//! the *look* thread ([`look`]) reads the store and does what is wished there; the main thread takes their messages
//! one after the other, gives them to the [`app`], and draws what comes of it ([`draw`]).
//!
//! Job data is hostile text: it is drawn through [`output::printable`], so that an escape sequence is shown and never
//! sent.

mod app;
mod draw;
mod look;
mod terminal;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::Context as _;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyEvent, read};
use ratatui::crossterm::terminal::size;
use windlass::config::parse_duration;
use windlass::{Client, Inspector};

use self::app::{App, Step, View};
use self::look::{Look, look, watch};
use self::terminal::Screen;
use crate::exit::Usage;
use crate::{Common, config, output};

/// The size of a page of text when there is no terminal to ask.
const SIZE_DEFAULT: (u16, u16) = (80, 24);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often to look, 100ms to 1h
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = parse_pace)]
    every: Duration,
    /// The list to begin with
    #[arg(long, value_name = "LIST", default_value = "queues")]
    view: View,
    /// Print one screen as text and end
    #[arg(long)]
    once: bool,
}

impl Arguments {
    /// Whether a screen is drawn on the terminal that messages would go to.
    pub(crate) fn draws(&self) -> bool {
        !self.once && std::io::stderr().is_terminal()
    }
}

fn parse_pace(text: &str) -> Result<Duration, String> {
    let pace = parse_duration(text)?;
    let (least, most) = (Duration::from_millis(100), Duration::from_secs(3_600));
    if (least..=most).contains(&pace) { Ok(pace) } else { Err(format!("{text:?} is not between 100ms and 1h")) }
}

/// What happens to the program.
#[derive(Debug)]
enum Message {
    Pressed(KeyEvent),
    Resized,
    Looked(Result<Box<Look>, windlass::Error>),
    Obeyed(Result<String, String>),
    /// The system wants the program to end.
    End,
    /// The system wants the program to pause.
    Suspend,
    /// The terminal is gone, or can no longer be read.
    Lost(std::io::Error),
}

pub(crate) fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<()> {
    let url = config::read(common, &[])?.settings.store;
    let store = windlass::open(&url)?;
    let client = Client::new(Arc::clone(&store));
    let mut app = App::new(store.describe().url, arguments.view);
    app.is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let ended = if arguments.once { once(&client, app, arguments.every) } else { live(client, app, arguments.every) };
    // What was done in the store is durable; closing only tidies up.
    let _ = windlass::blocking::block_on(store.close());
    ended
}

/// Looks twice, for a rate needs two looks, and prints what a screen would show.
fn once(client: &Client, mut app: App, pace: Duration) -> anyhow::Result<()> {
    let inspector = Inspector::new(Arc::clone(client.store()));
    let take_look = || look(&inspector, client.store().now(), &app.interest());
    let first = take_look()?;
    std::thread::sleep(pace);
    let second = take_look()?;
    app.looked(Ok(Box::new(first)));
    app.looked(Ok(Box::new(second)));
    let (width, height) = if std::io::stdout().is_terminal() { size()? } else { SIZE_DEFAULT };
    let mut terminal = Terminal::new(TestBackend::new(width, height))?;
    terminal.draw(|frame| draw::draw(frame, &app))?;
    lines(terminal.backend()).iter().try_for_each(|line| output::line(line))
}

/// What a drawn screen says, without its colours.
fn lines(backend: &TestBackend) -> Vec<String> {
    let buffer = backend.buffer();
    let line = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect::<String>();
    let rows = buffer.content().chunks(usize::from(buffer.area.width).max(1));
    rows.map(|row| line(row).trim_end().to_owned()).collect()
}

fn live(client: Client, mut app: App, pace: Duration) -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Usage("top needs a terminal: add --once to print one screen as text".to_owned()).into());
    }
    let (messages, inbox) = channel();
    let (wishes, wished) = channel();
    // The signals first: one that comes while the terminal is being taken must find somebody.
    listen(messages.clone())?;
    let mut screen = Screen::take().context("cannot take the terminal")?;
    let looker = messages.clone();
    spawn("windlass-look", move || watch(&client, pace, &wished, &looker))?;
    spawn("windlass-keys", move || read_keys(&messages))?;
    let ended = serve(&mut app, &mut screen, &inbox, &wishes);
    drop(screen);
    ended
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    // Threads that wait for a key or for the store end with the process.
    std::thread::Builder::new().name(name.to_owned()).spawn(work).with_context(|| format!("cannot start {name}"))?;
    Ok(())
}

/// Takes messages until one of them ends the program. Draws when none is waiting.
fn serve(
    app: &mut App,
    screen: &mut Screen,
    inbox: &Receiver<Message>,
    wishes: &Sender<look::Wish>,
) -> anyhow::Result<()> {
    loop {
        screen.draw(app)?;
        let first = inbox.recv().context("every thread that could say something has ended")?;
        for message in std::iter::once(first).chain(inbox.try_iter()) {
            let step = match message {
                Message::Pressed(key) => app.pressed(key),
                Message::Resized => Step::Go,
                Message::Looked(looked) => {
                    app.looked(looked);
                    Step::Go
                }
                Message::Obeyed(answer) => {
                    app.obeyed(answer);
                    Step::Go
                }
                Message::End => Step::End,
                Message::Suspend => Step::Suspend,
                Message::Lost(error) => return Err(error).context("cannot read the terminal"),
            };
            match step {
                Step::Go => {}
                Step::Redraw => screen.forget()?,
                Step::Suspend => screen.suspend()?,
                Step::End => return Ok(()),
            }
        }
        for wish in app.take_wishes() {
            wishes.send(wish).ok().context("the thread that looks into the store has ended")?;
        }
    }
}

fn read_keys(messages: &Sender<Message>) {
    loop {
        let message = match read() {
            Ok(Event::Key(key)) => Message::Pressed(key),
            Ok(Event::Resize(..)) => Message::Resized,
            Ok(_) => continue,
            Err(error) => Message::Lost(error),
        };
        let is_last = matches!(message, Message::Lost(_));
        if messages.send(message).is_err() || is_last {
            return;
        }
    }
}

/// Hears signals, on a thread of its own.
#[cfg(unix)]
fn listen(messages: Sender<Message>) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _inside = runtime.enter();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    // SIGTSTP has no name in the library; its number is the same on every Unix.
    let mut suspend = signal(SignalKind::from_raw(20))?;
    drop(_inside);
    spawn("windlass-signals", move || {
        runtime.block_on(async move {
            loop {
                let message = tokio::select! {
                    _ = terminate.recv() => Message::End,
                    _ = interrupt.recv() => Message::End,
                    _ = hang_up.recv() => Message::End,
                    _ = suspend.recv() => Message::Suspend,
                };
                if messages.send(message).is_err() {
                    return;
                }
            }
        });
    })
}

/// There are keys only.
#[cfg(not(unix))]
fn listen(_messages: Sender<Message>) -> anyhow::Result<()> {
    Ok(())
}
