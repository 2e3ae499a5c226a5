//! What is drawn, and what keys do, without a terminal.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use windlass::job::{ErrorInfo, JobRecord, Payload, Settings};
use windlass::state::State;
use windlass::store::{Counts, Cursor, MemberId, MemberInfo, ProcessInfo, QueueInfo, RunningJob, Totals, Vitals};
use windlass::{JobId, Timestamp};

use super::app::{App, Mode, Step, View};
use super::look::{Interest, Look, Order, Wish};
use super::{draw, lines};

const NOW: Timestamp = Timestamp::from_millis(1_763_726_400_000);

fn id(number: u8) -> JobId {
    JobId::from_bytes([number; 12])
}

fn job(number: u8, state: State, text: &str) -> JobRecord {
    let error = ErrorInfo {
        class: text.to_owned(),
        message: text.to_owned(),
        backtrace: Some(format!("{text}\n{text}")),
        attempt: 1,
        at: NOW,
    };
    JobRecord {
        id: id(number),
        kind: text.to_owned(),
        queue: text.to_owned(),
        state,
        payload: Payload::from_bytes(format!("[{text}]")),
        attempt: 1,
        run: 1,
        recoveries: 0,
        enqueued_at: NOW,
        run_at: NOW,
        expires_at: None,
        failed_at: None,
        leased_at: None,
        member: Some(text.to_owned()),
        finished_at: Some(NOW),
        keep_until: None,
        at_most_once: false,
        cancel_asked: false,
        reason: Some(text.to_owned()),
        error: Some(error),
        result: Some(Payload::from_bytes(text)),
        settings: Settings::default(),
    }
}

fn queue(name: &str, ready: u64) -> QueueInfo {
    QueueInfo { name: name.to_owned(), ready, running: 1, waiting: 0, latency_ms: 1_500, paused: false }
}

fn process(text: &str) -> ProcessInfo {
    let running = RunningJob { id: id(9), kind: text.to_owned(), queue: text.to_owned(), leased_at: NOW, attempt: 1 };
    ProcessInfo {
        info: MemberInfo {
            id: MemberId::from(text.to_owned()),
            host: text.to_owned(),
            pid: 7,
            queues: vec![text.to_owned()],
            weights: Vec::new(),
            concurrency: 10,
            version: text.to_owned(),
        },
        joined_at: NOW,
        beat_at: NOW,
        lease_until: NOW + std::time::Duration::from_secs(9),
        vitals: Vitals { rss_bytes: 5 << 20, ..Vitals::default() },
        running: 1,
        jobs: vec![running],
    }
}

/// A look at a store in which everything is called `text`.
fn look(app: &App, text: &str) -> Look {
    let interest = app.interest();
    let jobs = interest.state.map(|state| vec![job(1, state, text), job(2, state, text)]).unwrap_or_default();
    Look {
        at: NOW,
        counts: Counts { ready: 1_234, running: 1, ..Counts::default() },
        queues: vec![queue(text, 1_234), queue("other", 0)],
        processes: vec![process(text)],
        job: interest.job.map(|id| job(id.as_bytes()[0], State::Dead, text)),
        interest,
        jobs,
        next: None,
    }
}

/// Gives the app a look at what it is interested in now.
fn refresh(app: &mut App, text: &str) {
    let look = look(app, text);
    app.looked(Ok(Box::new(look)));
}

fn app(view: View, text: &str) -> App {
    let mut app = App::new(format!("sqlite:{text}"), view);
    refresh(&mut app, text);
    app.take_wishes();
    app
}

fn press(app: &mut App, keys: &str) -> Step {
    let code = |key| match key {
        '\n' => KeyCode::Enter,
        '\u{1b}' => KeyCode::Esc,
        '\t' => KeyCode::Tab,
        key => KeyCode::Char(key),
    };
    keys.chars().map(|key| app.pressed(KeyEvent::new(code(key), KeyModifiers::NONE))).last().unwrap_or(Step::Go)
}

fn drawn(app: &App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(frame, app)).unwrap();
    lines(terminal.backend())
}

fn orders(app: &mut App) -> Vec<Order> {
    let order = |wish| if let Wish::Do(order) = wish { Some(order) } else { None };
    app.take_wishes().into_iter().filter_map(order).collect()
}

#[test]
fn the_first_screen_is_this() {
    let mut app = app(View::Queues, "mail");
    let mut later = look(&app, "mail");
    later.at = NOW + std::time::Duration::from_secs(2);
    later.counts.totals = Totals { enqueued: 2_468, done: 20, ..Totals::default() };
    app.looked(Ok(Box::new(later)));

    let lines = drawn(&app, 80, 24);

    assert_eq!(
        lines[..9],
        [
            " windlass top   sqlite:mail                                            12:00:02Z",
            "ready 1 234  running 1  retry 0  dead 0  scheduled 0  done 0  cancelled 0",
            "enqueued/s    1 234                                                            █",
            "done/s           10                                                            █",
            "failed/s          0",
            " 1 Queues  2 Busy  3 Scheduled  4 Retries  5 Dead  6 Processes",
            "QUEUE                           READY    RUNNING    WAITING    LATENCY",
            "mail                            1 234          1          0        1 s",
            "other                               0          1          0        1 s",
        ]
    );
    assert_eq!(lines[23], "p pause or resume   d delete ready jobs   / filter   ? help   q quit");
}

#[test]
fn every_list_and_every_overlay_is_drawn_on_every_size_of_screen() {
    for view in View::ALL {
        for keys in ["", "?", "\n", "/abc", "d", "jjjjjjjjjjjj"] {
            let mut app = app(view, "mail");
            press(&mut app, keys);
            refresh(&mut app, "mail");
            for (width, height) in [(1, 1), (3, 2), (20, 5), (40, 12), (80, 24), (200, 60), (300, 3)] {
                assert_eq!(drawn(&app, width, height).len(), usize::from(height));
            }
        }
    }
}

#[test]
fn each_list_shows_what_it_is_about() {
    let text = |view, width| drawn(&app(view, "mail"), width, 24).join("\n");

    assert!(text(View::Busy, 80).contains("…09090909"));
    assert!(text(View::Scheduled, 80).contains("[mail]"));
    assert!(text(View::Retries, 80).contains("mail: mail"));
    assert!(text(View::Dead, 140).contains(&id(2).to_string()));
    assert!(text(View::Processes, 80).contains("1/10"));
}

/// What a hostile program may put into a job, an error or its own name.
const ESCAPES: &[&str] = &[
    "\u{1b}[2J\u{1b}[H",
    "\u{1b}c",
    "\u{1b}[31mred",
    "\u{1b}[6n",
    "\u{1b}[21t",
    "\u{1b}[?1049l",
    "\u{1b}[?1003h",
    "\u{1b}[?2026h",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]0;title\u{1b}\\",
    "\u{1b}]8;;http://x/\u{1b}\\link\u{1b}]8;;\u{1b}\\",
    "\u{1b}]52;c;cHduZWQ=\u{7}",
    "\u{1b}]4;1;?\u{7}",
    "\u{1b}]1337;File=inline=1:AAAA\u{7}",
    "\u{1b}P$q\"p\u{1b}\\",
    "\u{1b}Ptmux;\u{1b}\u{1b}[2J\u{1b}\\",
    "\u{1b}_Gf=100;AAAA\u{1b}\\",
    "\u{1b}^privacy\u{1b}\\",
    "\u{1b}Xstring\u{1b}\\",
    "\u{1b}(0lqqk",
    "\u{1b}#8",
    "\u{1b}",
    "end\u{1b}[",
    "\u{9b}2J",
    "\u{9d}0;title\u{9c}",
    "\u{90}q\u{9c}",
    "\u{85}",
    "\u{7}\u{8}\u{b}\u{c}\u{e}\u{f}\u{7f}",
    "over\rwritten",
    "two\nlines\tand a tab",
    "nul\0nul",
    "right \u{202e}to left\u{202c}",
    "\u{2066}isolated\u{2069}\u{200f}\u{61c}",
    "zero\u{200b}width\u{2060}\u{feff}",
    "\u{2028}\u{2029}",
    "\u{e0041}\u{e007f}tags",
    "\u{fff9}ruby\u{fffb}",
];

fn is_harmless(symbol: &str) -> bool {
    let is_hostile = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
            || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    !symbol.chars().any(is_hostile)
}

#[test]
fn no_escape_sequence_in_any_field_reaches_a_cell_of_the_screen() {
    for escape in ESCAPES {
        for view in View::ALL {
            for keys in ["", "\n", "d", "c", "x"] {
                let mut app = app(view, escape);
                press(&mut app, keys);
                refresh(&mut app, escape);
                for line in drawn(&app, 100, 30) {
                    assert!(is_harmless(&line), "{escape:?} in {view:?} after {keys:?}: {line:?}");
                }
                app.obeyed(Err((*escape).to_owned()));
                app.filter = (*escape).to_owned();
                assert!(drawn(&app, 100, 30).iter().all(|line| is_harmless(line)), "{escape:?} as news or filter");
            }
        }
    }
}

#[test]
fn an_escape_sequence_is_shown_by_its_code() {
    let screen = drawn(&app(View::Queues, "\u{1b}[2J\u{202e}"), 80, 24).join("\n");

    assert!(screen.contains(r"\u{1b}[2J\u{202e}"), "{screen}");
}

#[test]
fn what_destroys_is_asked_about_and_only_y_is_yes() {
    for (view, key, order) in [
        (View::Queues, "d", Order::Clear("mail".to_owned())),
        (View::Busy, "c", Order::Cancel(id(9))),
        (View::Scheduled, "x", Order::Kill(id(1))),
        (View::Dead, "d", Order::Delete(id(1))),
        (View::Processes, "u", Order::Quiet(MemberId::from("mail".to_owned()))),
        (View::Processes, "s", Order::Stop(MemberId::from("mail".to_owned()))),
    ] {
        let mut app = app(view, "mail");

        press(&mut app, key);
        assert!(drawn(&app, 80, 24)[23].ends_with("y / N"), "{:?}", app.mode);
        press(&mut app, "n");
        assert_eq!((orders(&mut app), &app.mode), (Vec::new(), &Mode::Lists));

        press(&mut app, key);
        press(&mut app, "y");
        assert_eq!(orders(&mut app), [order]);
    }
}

#[test]
fn what_can_be_undone_is_done_at_once() {
    let mut queues = app(View::Queues, "mail");
    press(&mut queues, "p");
    assert_eq!(orders(&mut queues), [Order::Pause("mail".to_owned())]);

    let mut paused = look(&queues, "mail");
    paused.queues[0].paused = true;
    queues.looked(Ok(Box::new(paused)));
    press(&mut queues, "p");
    assert_eq!(orders(&mut queues), [Order::Resume("mail".to_owned())]);

    let mut dead = app(View::Dead, "mail");
    press(&mut dead, "jr");
    assert_eq!(orders(&mut dead), [Order::Requeue(id(2))]);
}

#[test]
fn a_key_of_another_list_does_nothing() {
    let mut app = app(View::Processes, "mail");

    press(&mut app, "pdcrx");

    assert_eq!((orders(&mut app), &app.mode), (Vec::new(), &Mode::Lists));
}

#[test]
fn what_was_chosen_stays_chosen_when_rows_come_and_go() {
    let mut app = app(View::Queues, "mail");
    press(&mut app, "j");
    let mut later = look(&app, "mail");
    later.queues.insert(0, queue("a new one", 1));
    later.queues.insert(0, queue("and another", 1));

    app.looked(Ok(Box::new(later)));

    press(&mut app, "p");
    assert_eq!(orders(&mut app), [Order::Pause("other".to_owned())]);
    let mut gone = look(&app, "mail");
    gone.queues.truncate(1);
    app.looked(Ok(Box::new(gone)));
    assert_eq!(app.index(), 0);
}

#[test]
fn an_order_is_about_the_row_that_was_asked_about_even_when_it_has_moved() {
    let mut app = app(View::Dead, "mail");
    press(&mut app, "d");
    let mut later = look(&app, "mail");
    later.jobs.insert(0, job(3, State::Dead, "mail"));

    app.looked(Ok(Box::new(later)));
    press(&mut app, "y");

    assert_eq!(orders(&mut app), [Order::Delete(id(1))]);
}

#[test]
fn a_filter_leaves_what_holds_the_text_and_escape_brings_all_back() {
    let mut app = app(View::Queues, "mail");

    press(&mut app, "/oth\n");
    assert_eq!(app.rows().len(), 1);
    press(&mut app, "p");
    assert_eq!(orders(&mut app), [Order::Pause("other".to_owned())]);

    press(&mut app, "/zzz");
    assert!(drawn(&app, 80, 24)[6].contains("nothing here matches"));
    press(&mut app, "\u{1b}");
    assert_eq!(app.rows().len(), 2);
}

#[test]
fn only_what_is_on_the_screen_is_asked_of_the_store() {
    let mut app = App::new("sqlite:jobs.db".to_owned(), View::Queues);
    assert_eq!(app.interest(), Interest::default());

    press(&mut app, "5");
    assert_eq!(app.interest().state, Some(State::Dead));
    let mut first = look(&app, "mail");
    first.next = Some(Cursor { at_ms: 5, arrival: 6 });
    app.looked(Ok(Box::new(first)));
    press(&mut app, "]");
    assert_eq!(app.interest().after, Some(Cursor { at_ms: 5, arrival: 6 }));
    assert_eq!(app.page(), 2);
    press(&mut app, "[");
    assert_eq!(app.interest().after, None);

    refresh(&mut app, "mail");
    press(&mut app, "\n");
    assert_eq!(app.interest().job, Some(id(1)));
    refresh(&mut app, "mail");
    assert!(drawn(&app, 80, 24).join("\n").contains(&id(1).to_string()));
    press(&mut app, "q");
    assert_eq!(app.interest().job, None);
}

#[test]
fn a_filter_of_a_list_of_jobs_is_a_search_in_the_store_from_its_first_page_on() {
    let mut app = app(View::Dead, "mail");
    let mut first = look(&app, "mail");
    first.next = Some(Cursor { at_ms: 5, arrival: 6 });
    app.looked(Ok(Box::new(first)));
    press(&mut app, "]");

    press(&mut app, "/ann\n");

    assert_eq!((app.interest().search.as_str(), app.interest().after), ("ann", None));
    press(&mut app, "1");
    assert_eq!(app.interest().search, "");
    press(&mut app, &format!("/{}", "x".repeat(300)));
    assert_eq!(app.filter.len(), windlass::store::SEARCH_LEN_MAX);
}

#[test]
fn the_page_of_another_list_is_never_shown_as_this_one() {
    let mut app = app(View::Dead, "mail");

    press(&mut app, "4");

    assert!(app.rows().is_empty());
    press(&mut app, "r");
    assert!(orders(&mut app).is_empty());
}

#[test]
fn the_details_of_a_job_scroll_to_their_end_and_no_further() {
    let mut app = app(View::Dead, &"long ".repeat(100));
    press(&mut app, "\n");
    refresh(&mut app, &"long ".repeat(100));
    drawn(&app, 80, 24);

    for _ in 0..300 {
        press(&mut app, "j");
        drawn(&app, 80, 24);
    }
    let Mode::Details { line: end } = app.mode else { panic!("{:?}", app.mode) };
    press(&mut app, "k");

    assert!(end > 0 && app.mode == Mode::Details { line: end - 1 }, "{end}");
}

#[test]
fn a_store_that_cannot_answer_is_told_and_the_last_look_stays() {
    let mut app = app(View::Queues, "mail");

    app.looked(Err(windlass::Error::Store(windlass::StoreError::Closed { tried: "counts" })));

    let screen = drawn(&app, 80, 24);
    assert!(screen[23].contains("counts refused"), "{}", screen[23]);
    assert!(screen[7].starts_with("mail"));
    refresh(&mut app, "mail");
    assert!(drawn(&app, 80, 24)[23].starts_with("p pause"));
}

#[test]
fn without_colours_nothing_has_one() {
    let mut app = app(View::Queues, "mail");
    app.is_plain = true;
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();

    terminal.draw(|frame| draw::draw(frame, &app)).unwrap();

    let is_plain = |cell: &ratatui::buffer::Cell| cell.style().fg == Some(ratatui::style::Color::Reset);
    assert!(terminal.backend().buffer().content().iter().all(is_plain));
}

#[test]
fn quit_suspend_and_redraw_are_passed_on() {
    let mut app = app(View::Queues, "mail");
    let mut control = |key| app.pressed(KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL));

    assert_eq!((control('c'), control('z'), control('l')), (Step::End, Step::Suspend, Step::Redraw));
    assert_eq!(press(&mut app, "q"), Step::End);
}
