//! Which trace a fact belongs to.

use serde::{Deserialize, Serialize};

/// The part of a W3C trace context that facts carry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Trace {
    /// `traceId`
    pub trace_id: Box<str>,
    /// `spanId`
    pub span_id: Option<Box<str>>,
}

impl Trace {
    /// The trace of a `traceparent` header; none when it is not one.
    pub fn of_traceparent(text: &str) -> Option<Self> {
        let mut fields = text.split('-');
        let (version, trace_id, span_id, flags) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let hex = |field: &str, len| {
            field.len() == len && field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let zero = |field: &str| field.bytes().all(|byte| byte == b'0');
        // Later versions may have more fields; version 00 may not.
        let whole = hex(version, 2) && version != "ff" && (version != "00" || fields.next().is_none());
        let valid = whole && hex(trace_id, 32) && hex(span_id, 16) && hex(flags, 2);
        if !valid || zero(trace_id) || zero(span_id) {
            return None;
        }
        Some(Self { trace_id: trace_id.into(), span_id: Some(span_id.into()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_gives_its_trace_and_span() {
        let trace = Trace::of_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
        assert_eq!(&*trace.trace_id, "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(trace.span_id.as_deref(), Some("b7ad6b7169203331"));
    }

    #[test]
    fn what_is_no_traceparent_gives_no_trace() {
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(Trace::of_traceparent(text), None, "{text}");
        }
    }
}
