//! Packing a trial: its trajectory as one blob, everything else as another that refers to it.

use serde_json::{Value, json};

use crate::{
    control::{
        Error,
        args::ExportBenchmarkTrial,
        result::{Answer, Exported},
    },
    export::{
        KnownGap, Measured, Scope, Sealed, Trajectory, Trial,
        trajectory::SCHEMA,
        trial::{Measure, outcome},
    },
    fact::{
        Ref, Timestamp,
        id::{BlobRef, EvidenceId},
        payload::{EvidenceChanged, Object},
    },
    runtime::{Request, Runtime, exports::full},
};

impl Runtime {
    pub(in crate::runtime) async fn export_benchmark_trial(
        &self,
        request: &Request<'_>,
        args: ExportBenchmarkTrial,
    ) -> Result<Answer<Exported>, Error> {
        let trial = self.known_trial(request, &args.trial_id, "trialId").await?;
        let (trial, _) = self.tell_started(request, trial).await?;
        let _permit = self.export_permit(request).await?;
        let mut ids = request.ids();
        let (blob, evidence): (BlobRef, EvidenceId) = (ids.next(), ids.next());
        let trajectory: BlobRef = ids.next();
        let session = trial.session.clone();
        let made = self.trial_pack(request, &trial, &trajectory);
        let (meta, sealed) = self.keep(request, &blob, &session, made).await?;
        let changed = EvidenceChanged {
            status: Some("exported".into()),
            kind: Some("trial".into()),
            pack_ref: Some(Ref::from(blob.clone())),
            trajectory_ref: Some(Ref::from(trajectory)),
            scope: Object::from_iter([("trialId".to_owned(), json!(trial.id))]),
            hash: Some(format!("sha256:{}", meta.hash)),
            ..EvidenceChanged::default()
        };
        let scope = Scope { task_id: Some(trial.attempt().task), ..Scope::default() };
        let cursor =
            self.record_evidence(request, &session, &scope, (&evidence, meta.created), changed).await?;
        let result = Exported {
            reference: Ref::from(blob),
            kind: "trial".into(),
            evidence_id: Some(evidence),
            session_id: Some(session),
            trial_id: Some(trial.id.clone()),
            media_type: Some(meta.media_type),
            size_bytes: Some(meta.size_bytes),
            hash: Some(format!("sha256:{}", meta.hash)),
            missing: sealed.missing,
        };
        Ok(Answer { result, cursor })
    }

    /// The pack of a trial. Its trajectory is written first, because the pack says that it is there.
    async fn trial_pack(
        &self,
        request: &Request<'_>,
        trial: &Trial,
        blob: &BlobRef,
    ) -> Result<(Vec<u8>, Sealed), Error> {
        let Some((_, from)) = trial.told else { return Err(Error::not_found("trial", &trial.id)) };
        let ended = trial.result.as_ref().and_then(|result| result.told);
        let to = match ended {
            Some(cursor) => cursor,
            None => self.end_of_feed(request, &trial.session).await?,
        };
        // All tries under one key write the same trajectory.
        let to = self.first_found(request, to).await?;
        let mut trajectory = Trajectory::new(trial.session.clone());
        let mut measure = Measure::default();
        let trimmed = self
            .each_event(request, &trial.session, from, to, |event, _| {
                trajectory.take(event);
                measure.take(event);
                Ok(())
            })
            .await?;
        let measured = match &trial.result {
            Some(result) => result.measured.0.clone(),
            None => {
                let elsewhere = trial.spec.refs.contains_key("trajectoryRef");
                measure.finish(trimmed.is_some(), elsewhere)
            }
        };
        self.write_first(request, blob, &trial.session, trajectory.finish().map_err(full)?).await?;
        let (mut gaps, mut missing) = (Vec::new(), Vec::new());
        gaps.push(KnownGap::unknown(
            "decisionInputs.p0QcGateRegressionCount",
            "gates of quality control are not known to the runtime",
        ));
        if let Some(to) = trimmed {
            gaps.push(KnownGap::unavailable(
                "trajectory",
                format!("what happened up to {to} is no longer kept"),
            ));
            missing.push("history".to_owned());
        }
        if trial.result.is_none() {
            gaps.push(KnownGap::stale("reward", "the trial goes on: no reward was recorded"));
            missing.push("reward".to_owned());
        }
        if measured.cost_usd.is_none() {
            gaps.push(KnownGap::unknown("metrics.costUsd", "no fact says what the models cost"));
        }
        let mut pack = self.described(trial, &measured);
        match &trial.comparison {
            Some(known) => {
                pack["comparison"] = json!(known.comparison.0);
                pack["comparison"]["ref"] = json!(known.reference);
            }
            None => gaps.push(KnownGap::unknown("comparison", "no comparison has named this trial so far")),
        }
        pack["trajectory"] = json!({
            "schema": format!("{SCHEMA}-compatible"),
            "ref": blob,
            "exportStatus": "exported",
            "requiredFieldStatus": trajectory.required(),
        });
        pack["refs"]["trajectoryRef"] = json!(blob);
        pack["decisionInputs"]["trajectoryAtifCompatible"] =
            trajectory.required().values().all(|there| *there).into();
        pack["knownGaps"] = json!(gaps);
        pack["missing"] = json!(missing);
        let sealed = Sealed { missing, ..Sealed::default() };
        Ok((pack.to_string().into_bytes(), sealed))
    }

    /// What a pack says of a trial, without its trajectory.
    fn described(&self, trial: &Trial, measured: &Measured) -> Value {
        let result = trial.result.as_ref();
        let attempt = trial.attempt();
        let (status, category) = match result {
            Some(result) => (result.status.as_str(), result.failure_category.clone()),
            None => ("pending", outcome(None, measured.last_outcome).1),
        };
        let Timestamp(until) = result.map_or_else(|| self.clock.now(), |result| result.ended);
        let eligible = status == "completed" && category == "none" && measured.evidence_complete;
        let reward = match trial.reward() {
            Some(reward) => json!(reward),
            None => json!({ "status": "pending" }),
        };
        let mut metrics = json!({
            "durationMs": until.saturating_sub(trial.started.0),
            "timeout": status == "timed_out",
            "deniedSideEffectCount": measured.denied_side_effects,
            "evidenceComplete": measured.evidence_complete,
            "tokens": measured.input_tokens + measured.output_tokens,
            "artifactCount": measured.artifacts,
            "turnCount": measured.turns,
            "toolCallCount": measured.tool_calls,
        });
        if let Some(result) = result {
            metrics["reward"] = result.reward.value.into();
        }
        if let Some(cost) = measured.cost_usd {
            metrics["costUsd"] = cost.into();
        }
        json!({
            "schemaVersion": self.publisher().schema_version,
            "status": status,
            "benchmark": trial.benchmark(),
            "runtimeCorrelation": {
                "runtimeId": self.publisher().runtime_id,
                "sessionId": trial.session,
                "threadId": trial.told.as_ref().map(|(thread, _)| thread),
                "turnId": measured.turn_id.clone().unwrap_or_else(|| trial.turn()),
                "taskId": attempt.task,
                "runId": attempt.run,
                "traceId": measured.trace_id,
            },
            "refs": trial.spec.refs,
            "metrics": metrics,
            "decisionInputs": {
                "failureCategory": category,
                "promotionEligible": eligible,
                "artifactManifestPresent": trial.spec.refs.contains_key("artifactManifestRef"),
            },
            "reward": reward,
        })
    }
}
