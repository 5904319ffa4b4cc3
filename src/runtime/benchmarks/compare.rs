//! Comparing the trials of a candidate with those of a baseline.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::try_join_all;
use serde::{Deserialize, Serialize};

use crate::{
    control::{
        Error,
        args::CompareBenchmarkRuns,
        result::{Answer, Compared},
    },
    entity::Named,
    export::{
        Trial, TrialComparison,
        compare::{Outcome, Row, compare},
    },
    fact::{
        Fact, Ref,
        id::{BlobRef, TrialId},
        payload::{BenchmarkComparisonCompleted, BenchmarkRole, Comparison},
        scope::SessionScope,
    },
    runtime::{Request, Runtime, failure::damaged},
};

/// Records that are read at once.
const READS_AT_ONCE: usize = 64;

/// The report of a comparison: what was looked at, all of it, and what came of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    format: String,
    baseline: Vec<Row>,
    candidate: Vec<Row>,
    outcome: Outcome,
}

impl Runtime {
    pub(in crate::runtime) async fn compare_benchmark_runs(
        &self,
        request: &Request<'_>,
        args: CompareBenchmarkRuns,
    ) -> Result<Answer<Compared>, Error> {
        let known: BTreeSet<&TrialId> = args.baseline.iter().collect();
        if let Some(place) = args.candidate.iter().position(|trial| known.contains(trial)) {
            return Err(Error::invalid(format!("candidate[{place}]"), "is a trial of the baseline too"));
        }
        let baseline = self.trials(request, "baseline", &args.baseline).await?;
        let candidate = self.trials(request, "candidate", &args.candidate).await?;
        let (Some(first), Some(last)) = (baseline.first(), candidate.first()) else {
            return Err(Error::invalid("candidate", "name at least one trial"));
        };
        same_data(first, "baseline", &baseline)?;
        same_data(first, "candidate", &candidate)?;
        let blob: BlobRef = request.ids().next();
        let (session, mut benchmark) = (last.session.clone(), last.benchmark());
        benchmark.task_id = None;
        benchmark.trial_id = None;
        benchmark.role = Some(BenchmarkRole::Candidate);
        let (created, written) = match self.kept(request, &blob).await? {
            Some((content, meta)) => (meta.created, serde_json::from_slice(&content).map_err(damaged)?),
            None => {
                let rows = |trials: &[Trial]| trials.iter().map(Row::from).collect::<Vec<_>>();
                let (baseline, candidate) = (rows(&baseline), rows(&candidate));
                let outcome = compare(&baseline, &candidate);
                let format = "cadre-comparison/1".to_owned();
                let written = Written { format, baseline, candidate, outcome };
                let content = serde_json::to_vec(&written).map_err(damaged)?;
                match self.write_first(request, &blob, &session, content).await? {
                    (None, meta) => (meta.created, written),
                    (Some(first), meta) => (meta.created, serde_json::from_slice(&first).map_err(damaged)?),
                }
            }
        };
        let Outcome { baseline, candidate, comparison } = written.outcome;
        let reference = Ref::from(blob);
        let refs = BTreeMap::from([("comparisonRef".to_owned(), reference.clone())]);
        let told = BenchmarkComparisonCompleted { benchmark, refs, comparison: comparison.clone() };
        let fact = Fact::new(created, SessionScope {}, told);
        let cursor = self.record(request, &session, vec![fact]).await?;
        let short = Comparison { baseline: Vec::new(), candidate: Vec::new(), ..comparison.clone() };
        let known = TrialComparison { reference, comparison: Named(short) };
        let trials: Vec<_> = args.baseline.iter().chain(&args.candidate).collect();
        for some in trials.chunks(READS_AT_ONCE) {
            try_join_all(some.iter().map(|id| self.remember_comparison(request, id, &known))).await?;
        }
        let result = Compared {
            decision: comparison.decision.unwrap_or_default(),
            baseline,
            candidate,
            reason: comparison.reason,
            mean_reward_delta: comparison.mean_reward_delta,
            timeout_rate_delta: comparison.timeout_rate_delta,
            evidence_completeness_rate: comparison.evidence_completeness_rate,
            p0_qc_gate_regression_count: comparison.p0_qc_gate_regression_count,
        };
        Ok(Answer { result, cursor })
    }

    async fn trials(&self, request: &Request<'_>, field: &str, ids: &[TrialId]) -> Result<Vec<Trial>, Error> {
        let mut trials = Vec::with_capacity(ids.len());
        let places: Vec<_> = ids.iter().enumerate().collect();
        for some in places.chunks(READS_AT_ONCE) {
            let reads = some.iter().map(|(place, id)| async move {
                self.known_trial(request, id, &format!("{field}[{place}]")).await
            });
            trials.extend(try_join_all(reads).await?);
        }
        Ok(trials)
    }
}

/// Refuses trials of other data: their rewards cannot be compared.
fn same_data(first: &Trial, field: &str, trials: &[Trial]) -> Result<(), Error> {
    let data = |trial: &Trial| (trial.spec.dataset_id.clone(), trial.spec.dataset_version.clone());
    let (dataset, version) = data(first);
    match trials.iter().position(|trial| data(trial) != (dataset.clone(), version.clone())) {
        None => Ok(()),
        Some(place) => {
            let (other, other_version) = data(&trials[place]);
            let words = format!("is of {other} {other_version}, and the baseline of {dataset} {version}");
            Err(Error::invalid(format!("{field}[{place}]"), words))
        }
    }
}
