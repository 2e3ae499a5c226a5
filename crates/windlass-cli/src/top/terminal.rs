//! The terminal, taken and given back.
//!
//! While the screen is shown the terminal is *raw*: keys come as they are pressed, nothing is echoed. However the
//! program ends or pauses (a key, a signal, an error, a panic) it must be as it was. So there is one way in,
//! [`Screen::take`], and every way out goes through [`give_back`].

use std::io::{Stdout, stdout};
use std::sync::Once;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::layout::{Rect, Size};

use super::app::App;
use super::draw;

/// A terminal that shows the screen. Gives it back when dropped.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    pub(super) fn take() -> std::io::Result<Screen> {
        give_back_at_panics();
        enter()?;
        Ok(Screen { terminal: Terminal::new(CrosstermBackend::new(stdout()))? })
    }

    pub(super) fn draw(&mut self, app: &App) -> anyhow::Result<()> {
        windlass::failpoint::hit("top.draw")?;
        self.terminal.draw(|frame| draw::draw(frame, app))?;
        Ok(())
    }

    /// Draws everything anew, whatever is on the screen.
    pub(super) fn forget(&mut self) -> std::io::Result<()> {
        // Not `clear`: it asks the terminal where the cursor is, and the thread that reads keys would take the answer.
        let Size { width, height } = self.terminal.size()?;
        self.terminal.resize(Rect::new(0, 0, width, height))
    }

    /// Gives the terminal back, stops this process as the shell would, and goes on when it is told to.
    #[cfg(unix)]
    pub(super) fn suspend(&mut self) -> std::io::Result<()> {
        give_back();
        // Not TSTP: that signal is caught here, to get to this point. STOP cannot be.
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)?;
        enter()?;
        self.forget()
    }

    /// There is no such thing here.
    #[cfg(not(unix))]
    pub(super) fn suspend(&mut self) -> std::io::Result<()> {
        self.forget()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> std::io::Result<()> {
    enable_raw_mode()?;
    // Raw without its screen would be worse than neither.
    execute!(stdout(), EnterAlternateScreen).inspect_err(|_| give_back())
}

/// Makes the terminal what it was. Doing it twice does no harm.
fn give_back() {
    // Whoever wants the terminal back may have lost it already; then there is nothing to restore.
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// A panic is told on a terminal on which it can be read.
fn give_back_at_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            tell(panic);
        }));
    });
}
