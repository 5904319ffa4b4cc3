//! The tools that every agent has for tests: `echo`, `fail`, `big` and `sleep`.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use cadre_cluster::host::Repeat;
use serde_json::{Value, json};

use super::tool::{Tool, ToolContext, ToolError, ToolReturn, ToolSpec};
use crate::fact::Failure;

/// All of them.
pub fn tools() -> Vec<Arc<dyn Tool>> {
    let names = [Builtin::Echo, Builtin::Fail, Builtin::Big, Builtin::Sleep];
    names.into_iter().map(|tool| Arc::new(Ready { spec: tool.spec(), tool }) as Arc<dyn Tool>).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Builtin {
    Echo,
    Fail,
    Big,
    Sleep,
}

struct Ready {
    tool: Builtin,
    spec: ToolSpec,
}

/// What `big` returns at most.
const BIG_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// What `sleep` sleeps at most.
const SLEEP_MS_MAX: u64 = 10 * 60 * 1000;

impl Builtin {
    fn spec(self) -> ToolSpec {
        let object = |properties: Value| json!({ "type": "object", "properties": properties });
        let (name, description, schema) = match self {
            Self::Echo => ("echo", "Returns its arguments.", object(json!({}))),
            Self::Fail => {
                let message = json!({ "message": { "type": "string" } });
                ("fail", "Fails with a message.", object(message))
            }
            Self::Big => {
                let bytes = json!({ "bytes": { "type": "integer", "minimum": 0, "maximum": BIG_BYTES_MAX } });
                ("big", "Returns that many bytes of text.", object(bytes))
            }
            Self::Sleep => {
                let properties = json!({
                    "ms": { "type": "integer", "minimum": 0, "maximum": SLEEP_MS_MAX },
                    "once": { "type": "boolean", "description": "lost, not repeated, when its worker dies" },
                });
                ("sleep", "Waits, and returns how long.", object(properties))
            }
        };
        ToolSpec {
            name: name.into(),
            description: description.into(),
            schema,
            read_only: true,
            parallel_safe: true,
            repeat: Repeat::Safe,
            deadline_ms: 30_000,
        }
    }
}

#[async_trait]
impl Tool for Ready {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn deadline_ms(&self, args: &Value) -> u64 {
        match self.tool {
            Builtin::Sleep => number(args, "ms").saturating_add(self.spec.deadline_ms),
            _ => self.spec.deadline_ms,
        }
    }

    fn repeat(&self, args: &Value) -> Repeat {
        if args["once"] == true { Repeat::Never } else { self.spec.repeat }
    }

    fn check(&self, args: &Value) -> Result<(), String> {
        let bounded = |name: &str, max: u64| match &args[name] {
            Value::Null => Ok(()),
            value if value.as_u64().is_some_and(|value| value <= max) => Ok(()),
            _ => Err(format!("{name}: must be a whole number from 0 to {max}")),
        };
        match self.tool {
            Builtin::Echo | Builtin::Fail => Ok(()),
            Builtin::Big => bounded("bytes", BIG_BYTES_MAX),
            Builtin::Sleep => bounded("ms", SLEEP_MS_MAX),
        }
    }

    async fn call(&self, args: Value, _: ToolContext) -> Result<ToolReturn, ToolError> {
        match self.tool {
            Builtin::Echo => Ok(ToolReturn::Value(args)),
            Builtin::Fail => {
                let message = args["message"].as_str().unwrap_or("the tool was told to fail");
                Err(ToolError::Failed(Failure::new("tool_failed", message)))
            }
            Builtin::Big => {
                let bytes = usize::try_from(number(&args, "bytes")).unwrap_or(0);
                let pattern = b"0123456789abcdef";
                let content: Bytes = pattern.iter().copied().cycle().take(bytes).collect::<Vec<_>>().into();
                Ok(ToolReturn::Bytes { content, media_type: "text/plain".into() })
            }
            Builtin::Sleep => {
                let ms = number(&args, "ms");
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(ToolReturn::Value(json!({ "sleptMs": ms })))
            }
        }
    }
}

fn number(args: &Value, name: &str) -> u64 {
    args[name].as_u64().unwrap_or(0)
}
