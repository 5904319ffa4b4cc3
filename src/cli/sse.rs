//! Reading Server-Sent Events.

use std::io::{self, BufRead};

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// What it is: `snapshot`, `fact`, `gap`, `bye`, `error`.
    pub event: String,
    /// Where to go on after it.
    pub id: Option<String>,
    /// What it says.
    pub data: String,
}

/// The next event; `None` at the end of the stream. Half an event at the end is none.
pub fn read(lines: &mut impl BufRead) -> io::Result<Option<Frame>> {
    let (mut frame, mut line) = (Frame::default(), String::new());
    loop {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let text = line.trim_end_matches(['\n', '\r']);
        if text.is_empty() {
            if frame.data.is_empty() {
                frame = Frame::default();
                continue;
            }
            return Ok(Some(frame));
        }
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => frame.event = value.to_owned(),
            "id" => frame.id = Some(value.to_owned()),
            "data" => {
                if !frame.data.is_empty() {
                    frame.data.push('\n');
                }
                frame.data.push_str(value);
            }
            // A comment, or something of later versions.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_comments_are_not() {
        let mut text = &b": hello\n\nid: 1\nevent: fact\ndata: {}\n\n: still here\n\ndata:a\r\ndata: b\r\n\r\nid: 3\ndata: ha"[..];
        let fact = Frame { event: "fact".into(), id: Some("1".into()), data: "{}".into() };
        assert_eq!(read(&mut text).unwrap(), Some(fact));
        assert_eq!(read(&mut text).unwrap(), Some(Frame { data: "a\nb".into(), ..Frame::default() }));
        assert_eq!(read(&mut text).unwrap(), None, "half an event is none");
    }
}
