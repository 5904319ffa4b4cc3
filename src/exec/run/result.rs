//! What calls come to.

use cadre_cluster::{clock::Timestamp, host::EffectResult};

use super::{Ending, Run, unfinished};
use crate::{
    exec::{Draft, Outcome, ToolOutput, call::CallState},
    fact::{
        Failure, Time,
        payload::{OutputSpilled, OutputTruncated, ToolFailed, ToolResult},
        scope::OutputScope,
    },
};

impl Run {
    pub(super) fn take_call_effect(
        &mut self,
        name: &str,
        result: EffectResult<Outcome>,
        draft: &mut Draft<'_>,
    ) -> Option<Ending> {
        let id = name.strip_prefix("tool/")?;
        let index = self.calls.iter().position(|call| call.id.as_str() == id)?;
        if !matches!(self.calls[index].state, CallState::Running { .. }) {
            return None;
        }
        match result {
            EffectResult::Done(Outcome::Returned(result)) => {
                match self.ask_after_tool(index, result, draft) {
                    Ok(output) => self.returned(index, output, draft),
                    Err(failure) => self.failed(index, failure, None, draft),
                }
            }
            EffectResult::Lost => {
                let failure = unfinished(EffectResult::Lost);
                self.failed(index, failure.clone(), Some("lost"), draft);
                return Some(Ending::lost(failure));
            }
            other => self.failed(index, unfinished(other), None, draft),
        }
        None
    }

    pub(super) fn returned(&mut self, index: usize, output: ToolOutput, draft: &mut Draft<'_>) {
        let since = match self.calls[index].state {
            CallState::Running { since } | CallState::Joining { since, .. } => since,
            _ => draft.now,
        };
        let scope = self.tool_scope(index);
        let mut around = self.around.clone();
        if let Some(spilled) = &output.spilled {
            around = around.with(spilled.blob.clone());
            let told = OutputSpilled {
                size_bytes: output.kept_bytes.unwrap_or(output.size_bytes),
                media_type: spilled.media_type.clone(),
                hash: format!("sha256:{}", spilled.hash),
                preview: output.preview.clone(),
                expires_at: Some(Time(Timestamp(spilled.expires_ms))),
                source: None,
            };
            let ids = self.ids().with(scope.step.clone()).with(scope.call.clone());
            if let Some(kept_bytes) = output.kept_bytes {
                let limit = draft.engine.limits.output_bytes;
                let cut = OutputTruncated {
                    size_bytes: Some(output.size_bytes),
                    kept_bytes,
                    reason: Some(format!("no more than {limit} bytes of an output are kept")),
                    source: Some("tool".into()),
                };
                draft.tell_within(&ids.clone().with(spilled.blob.clone()), self.scope(), cut);
            }
            draft.tell_within(&ids, OutputScope { output: spilled.blob.clone() }, told);
        }
        let result = ToolResult {
            name: self.calls[index].call.name().to_owned(),
            preview: output.preview,
            structured: output.structured.and_then(|json| serde_json::from_str(&json).ok()),
            size_bytes: (output.size_bytes > 0).then_some(output.size_bytes),
            duration_ms: Some(draft.now.0.saturating_sub(since.0)),
            output_refs: Vec::new(),
        };
        draft.tell_within(&around, scope, result);
        self.calls[index].state = CallState::Done;
    }

    pub(super) fn failed(
        &mut self,
        index: usize,
        error: Failure,
        status: Option<&str>,
        draft: &mut Draft<'_>,
    ) {
        let name = self.calls[index].call.name().to_owned();
        let failed = ToolFailed { name, error, status: status.map(str::to_owned), ..Default::default() };
        draft.tell_within(&self.around, self.tool_scope(index), failed);
        self.calls[index].state = CallState::Done;
    }
}
