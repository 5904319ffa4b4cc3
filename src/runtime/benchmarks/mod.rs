//! The commands about benchmarks: trials, their rewards, and comparisons.

mod compare;
mod pack;
mod record;

use std::collections::BTreeMap;

use self::record::Reserved;
use super::{Request, Runtime};
use crate::{
    control::{
        Error,
        args::{RecordBenchmarkReward, StartBenchmarkTrial},
        result::{Answer, TrialState},
    },
    entity::{Named, session::fingerprint},
    export::{
        Trial, TrialResult,
        trial::{Measure, outcome},
    },
    fact::{
        Fact, Failure, Ids, Ref,
        id::{SessionId, ThreadId},
        payload::{
            BenchmarkConfigurationResolved, BenchmarkDatasetResolved, BenchmarkRewardRecorded,
            BenchmarkTrialCompleted, BenchmarkTrialFailed, BenchmarkTrialStarted, ExportStatus, Object,
            Trajectory, Usage,
        },
        scope::SessionScope,
    },
};

impl Runtime {
    pub(super) async fn start_benchmark_trial(
        &self,
        request: &Request<'_>,
        args: StartBenchmarkTrial,
    ) -> Result<Answer<TrialState>, Error> {
        let mut ids = request.ids();
        let id = args.trial_id.clone().unwrap_or_else(|| ids.next());
        let own_session: SessionId = ids.next();
        let mut plain = args.clone();
        plain.trial_id = None;
        let trial = Trial {
            session: args.session_id.clone().unwrap_or(own_session),
            fingerprint: fingerprint(&plain),
            spec: Named(args),
            started: self.clock.now(),
            told: None,
            result: None,
            comparison: None,
            id,
        };
        if self.trial(request, &trial.id).await?.is_none()
            && let Some(session) = &trial.spec.session_id
        {
            let open = self.open_session(request, session).await;
            open.map_err(|error| error.with("field", "sessionId"))?;
        }
        let trial = match self.reserve_trial(request, trial).await? {
            Reserved::Mine(trial) => trial,
            Reserved::Other(other) => {
                let message = format!("the trial {} exists with other content", other.id);
                return Err(Error::conflict(other.status(), message));
            }
        };
        if trial.spec.session_id.is_none() && trial.told.is_none() {
            let spec = &trial.spec;
            let title = format!("{} {}: {}", spec.dataset_id, spec.dataset_version, spec.task_id);
            let title = title.chars().take(200).collect();
            self.make_session(request, &trial.session, Some(title), None).await?;
        }
        let (trial, cursor) = self.tell_started(request, trial).await?;
        Ok(Answer { result: state(&trial), cursor: Some(cursor) })
    }

    pub(super) async fn record_benchmark_reward(
        &self,
        request: &Request<'_>,
        args: RecordBenchmarkReward,
    ) -> Result<Answer<TrialState>, Error> {
        let trial = self.known_trial(request, &args.trial_id, "trialId").await?;
        // Its beginning may not have been told, when a node died in between.
        let (mut trial, started) = self.tell_started(request, trial).await?;
        if trial.result.is_none() {
            let mut measure = Measure::default();
            let to = self.end_of_feed(request, &trial.session).await?;
            let trimmed = self
                .each_event(request, &trial.session, started, to, |event, _| {
                    measure.take(event);
                    Ok(())
                })
                .await?;
            let elsewhere = trial.spec.refs.contains_key("trajectoryRef");
            let measured = measure.finish(trimmed.is_some(), elsewhere);
            let (status, category) = outcome(args.failure_category.as_deref(), measured.last_outcome);
            let result = TrialResult {
                reward: Named(args.clone()),
                ended: self.clock.now(),
                by: request.by(),
                status: status.into(),
                failure_category: category,
                measured: Named(measured),
                told: None,
            };
            trial = self.reserve_result(request, &trial.id, result).await?;
        }
        let known = trial.result.as_ref().map(|result| &result.reward.0);
        if known.is_some_and(|known| *known != args) {
            let message = format!("the trial {} has a reward, and it is another one", trial.id);
            return Err(Error::conflict(trial.status(), message));
        }
        let (trial, cursor) = self.tell_result(request, trial).await?;
        Ok(Answer { result: state(&trial), cursor })
    }
}

/// How a trial stands.
fn state(trial: &Trial) -> TrialState {
    TrialState {
        trial_id: trial.id.clone(),
        status: trial.status().to_owned(),
        session_id: Some(trial.session.clone()),
        value: trial.result.as_ref().map(|result| result.reward.value),
    }
}

/// What is told when a trial begins: always the same for the same trial.
fn started(trial: &Trial, thread: ThreadId) -> Vec<Fact> {
    let (benchmark, refs, at) = (trial.benchmark(), trial.spec.refs.clone(), trial.started);
    let dataset =
        BenchmarkDatasetResolved { benchmark: benchmark.clone(), refs: Some(refs.clone()), tasks: None };
    let configuration = BenchmarkConfigurationResolved {
        benchmark: benchmark.clone(),
        refs: Some(refs.clone()),
        configuration: Object::new(),
    };
    vec![
        Fact::new(at, SessionScope {}, dataset),
        Fact::new(at, SessionScope {}, configuration),
        Fact::new(at, trial.scope(thread), BenchmarkTrialStarted { benchmark, refs }),
    ]
}

/// What is told when a trial ends: always the same for the same trial.
fn ended(trial: &Trial, result: &TrialResult) -> Vec<Fact> {
    let (benchmark, at) = (trial.benchmark(), result.ended);
    let reward = trial.reward().unwrap_or_default();
    let mut refs: BTreeMap<String, Ref> = trial.spec.refs.clone();
    if let Some(details) = &reward.details_ref {
        refs.insert("rewardDetailsRef".into(), details.clone());
    }
    let measured = &result.measured.0;
    let trajectory = Some(Trajectory {
        schema: Some(format!("{}-compatible", crate::export::trajectory::SCHEMA)),
        reference: refs.get("trajectoryRef").cloned(),
        export_status: Some(ExportStatus::Pending),
        required_field_status: BTreeMap::new(),
    });
    let duration_ms = Some(result.ended.0.saturating_sub(trial.started.0));
    let around = match (&trial.told, &measured.turn_id) {
        (Some((thread, _)), Some(turn)) => Ids::default().with(thread.clone()).with(turn.clone()),
        (Some((thread, _)), None) => Ids::default().with(thread.clone()).with(trial.turn()),
        (None, _) => Ids::default(),
    };
    let recorded = BenchmarkRewardRecorded {
        benchmark: benchmark.clone(),
        refs: refs.clone(),
        reward: reward.clone(),
        by: Some(result.by.clone()),
    };
    let recorded = Fact::new(at, trial.attempt(), recorded);
    let end = if result.status == "completed" {
        let metrics = serde_json::to_value(measured).ok().and_then(|value| value.as_object().cloned());
        let usage = Usage {
            input_tokens: measured.input_tokens,
            output_tokens: measured.output_tokens,
            cached_tokens: None,
            cost_usd: measured.cost_usd,
        };
        let completed = BenchmarkTrialCompleted {
            benchmark,
            refs,
            status: result.status.clone(),
            reward: Some(reward),
            trajectory,
            usage: Some(usage),
            duration_ms,
            metrics: metrics.unwrap_or_default(),
        };
        Fact::new(at, trial.attempt(), completed)
    } else {
        let words = format!("the trial ended as {}", result.status);
        let failed = BenchmarkTrialFailed {
            benchmark,
            refs,
            status: result.status.clone(),
            error: Failure::new(result.failure_category.clone(), words),
            failure_category: Some(result.failure_category.clone()),
            trajectory,
            duration_ms,
        };
        Fact::new(at, trial.attempt(), failed)
    };
    vec![recorded.within(&around), end.within(&around)]
}
