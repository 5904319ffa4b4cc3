//! How far something is that takes a while: on standard error, and only when that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Often enough to look alive.
const TICK: Duration = Duration::from_millis(120);

/// Something of which nobody knows how long it takes.
pub fn spinner(what: &'static str) -> ProgressBar {
    let bar = of(None, "{spinner} {msg} {elapsed}");
    bar.set_message(what);
    bar.enable_steady_tick(TICK);
    bar
}

/// Things that are counted, however many there are.
pub fn count(what: &'static str) -> ProgressBar {
    let bar = of(None, "{spinner} {human_pos} {msg} {per_sec}");
    bar.set_message(what);
    bar.enable_steady_tick(TICK);
    bar
}

/// Bytes, of so many if that is known.
pub fn bytes(total: Option<u64>) -> ProgressBar {
    match total {
        Some(_) => of(total, "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}"),
        None => of(total, "{spinner} {bytes} {bytes_per_sec}"),
    }
}

fn of(total: Option<u64>, template: &str) -> ProgressBar {
    // Draws nothing where standard error is no terminal.
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_templates_are_understood() {
        for template in [
            "{spinner} {msg} {elapsed}",
            "{spinner} {human_pos} {msg} {per_sec}",
            "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            "{spinner} {bytes} {bytes_per_sec}",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
