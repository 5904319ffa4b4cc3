//! Durations as people write them: `90s`, `15m`, `12h`, `30d`.

use std::time::Duration;

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration: a whole number and s, m, h or d, such as 30d")]
pub struct InvalidDuration(String);

/// The duration that a text says.
pub fn parse(text: &str) -> Result<Duration, InvalidDuration> {
    let invalid = || InvalidDuration(text.chars().take(40).collect());
    let unit = match text.chars().last().ok_or_else(invalid)? {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(invalid()),
    };
    let number = &text[..text.len() - 1];
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid());
    }
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    seconds.map(Duration::from_secs).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_with_its_unit_and_nothing_else() {
        for (text, seconds) in [("0s", 0), ("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "d",
            "30",
            "30 d",
            "-1d",
            "+1d",
            "1.5h",
            "1w",
            "1D",
            "1d ",
            "d1",
            "é",
            "1é",
            "99999999999999999999s",
            "213503982334602d",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().contains("such as 30d"), "{text}: {error}");
        }
    }
}
