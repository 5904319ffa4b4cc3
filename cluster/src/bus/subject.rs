//! Subjects: dot-separated tokens, and how any text becomes one token.

use std::{fmt, sync::Arc};

/// A subject or a subject pattern. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(Arc<str>);

impl Subject {
    /// Joins tokens that are known to be safe: literals, numbers and [`escape_token`]ed text.
    ///
    /// # Panics
    /// When a token is empty or holds a dot or white space.
    pub fn from_tokens<'a>(tokens: impl IntoIterator<Item = &'a str>) -> Self {
        let mut text = String::new();
        for token in tokens {
            let bad = |c: char| c == '.' || c.is_whitespace() || c.is_control();
            assert!(!token.is_empty() && !token.contains(bad), "`{token}` is not a subject token");
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(token);
        }
        Self(text.into())
    }

    /// A subject as it came from the transport.
    pub fn from_wire(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tokens.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }

    /// A subject that `self`, as a pattern, covers; itself when it is none.
    pub fn example(&self) -> Self {
        let tokens = self.tokens().map(|token| if matches!(token, "*" | ">") { "_" } else { token });
        Self::from_tokens(tokens)
    }

    /// Whether `self`, as a pattern, covers `subject`.
    pub fn matches(&self, subject: &Subject) -> bool {
        let mut subject = subject.tokens();
        for pattern in self.tokens() {
            match (pattern, subject.next()) {
                (">", Some(_)) => return true,
                ("*", Some(_)) => {}
                (literal, Some(token)) if literal == token => {}
                _ => return false,
            }
        }
        subject.next().is_none()
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Makes one subject token of any text: letters, digits, `_` and `-` stay, every other byte becomes `=` and two
/// hex digits; nothing becomes `=`. Different texts never become the same token.
pub fn escape_token(text: &str) -> String {
    if text.is_empty() {
        return "=".into();
    }
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            token.push(byte as char);
        } else {
            token.push_str(&format!("={byte:02x}"));
        }
    }
    token
}

/// The text that [`escape_token`] made `token` of; `None` when it made no such token.
pub fn unescape_token(token: &str) -> Option<String> {
    if token == "=" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'=' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty() && escape_token(text) == token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_an_escaped_text_unescapes() {
        for token in ["", "a.b", "=4", "=zz", "=2E", "a b", "=41", "=ff", "==", "a="] {
            assert_eq!(unescape_token(token), None, "{token}");
        }
        assert_eq!(unescape_token("=2e"), Some(".".into()));
        assert_eq!(unescape_token("="), Some(String::new()));
    }

    #[test]
    fn patterns_cover_what_they_say() {
        let matches = |pattern, subject| Subject::from_wire(pattern).matches(&Subject::from_wire(subject));
        assert!(matches("a.*.c", "a.b.c") && matches("a.>", "a.b") && matches(">", "a.b.c"));
        assert!(
            !matches("a.>", "a") && !matches("a.*", "a") && !matches("a.*", "a.b.c") && !matches("a", "b")
        );
    }

    #[test]
    #[should_panic(expected = "is not a subject token")]
    fn an_unescaped_text_is_no_token() {
        Subject::from_tokens(["a", "b c"]);
    }

    #[test]
    fn a_pattern_covers_its_example() {
        for pattern in ["a", "a.b", "a.*.c", "a.>", "*.*.>"] {
            let pattern = Subject::from_wire(pattern);
            assert!(pattern.matches(&pattern.example()), "{pattern}");
            assert!(!pattern.example().as_str().contains(['*', '>']));
        }
    }
}
