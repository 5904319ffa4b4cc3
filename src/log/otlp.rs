//! Spans for a collector: OTLP over HTTP, as protobuf.
//!
//! Spans wait in a bounded queue for a thread of their own that sends them; what does not fit is dropped and counted by
//! the library, and nobody waits for the collector.

use std::{collections::HashMap, time::Duration};

use anyhow::Context as _;
use async_trait::async_trait;
use cadre::{config::Config, fact::Trace};
use cadre_cluster::trace;
use opentelemetry::{
    Context, KeyValue, SpanId, TraceFlags, TraceId,
    trace::{SpanContext, TraceContextExt, TraceState, TracerProvider},
};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracerProvider},
};
use tracing::{Span, Subscriber, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{Layer, filter::Targets, registry::LookupSpan};

/// How long a collector may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long the last spans may take.
pub const FLUSH_MAX: Duration = Duration::from_secs(3);
/// What is read of a collector's answer. Only its status counts.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// What sends spans; `None` when nobody wants them.
pub fn provider(config: &Config) -> anyhow::Result<Option<SdkTracerProvider>> {
    let telemetry = &config.telemetry;
    let Some(endpoint) = &telemetry.endpoint else { return Ok(None) };
    let agent = ureq::Agent::config_builder().timeout_global(Some(ANSWER_MAX)).http_status_as_error(false);
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Posts(agent.build().into()))
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .with_headers(telemetry.headers.iter().cloned().collect::<HashMap<_, _>>())
        .with_timeout(ANSWER_MAX)
        .build()
        .context("spans cannot be sent")?;
    let resource = Resource::builder_empty().with_attributes([
        KeyValue::new("service.name", "cadre"),
        KeyValue::new("service.namespace", config.node.cluster.clone()),
        KeyValue::new("service.instance.id", config.node.name.clone()),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ]);
    // What somebody else began is sent if they send theirs.
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(telemetry.sample_ratio)));
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(sampler)
        .with_resource(resource.build())
        .build();
    trace::join_with(join);
    Ok(Some(provider))
}

/// What makes spans of ours into such that are sent. Not those of libraries, which may say more than they should.
pub fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let ours = Targets::new()
        .with_target("cadre", LevelFilter::INFO)
        .with_target("cadre_cluster", LevelFilter::INFO);
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("cadre"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(ours)
}

fn join(span: &Span, parent: Option<String>) -> Option<String> {
    if let Some(parent) = parent.as_deref().and_then(remote) {
        // Fails for spans that are not sent, and those need no parent.
        let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    }
    let context = span.context();
    let it = context.span().span_context().clone();
    if !it.is_valid() {
        return parent;
    }
    let (trace, span, flags) = (it.trace_id(), it.span_id(), it.trace_flags().to_u8());
    Some(format!("00-{trace}-{span}-{flags:02x}"))
}

/// The context that a `traceparent` header names.
fn remote(traceparent: &str) -> Option<SpanContext> {
    let Trace { trace_id, span_id } = Trace::of_traceparent(traceparent)?;
    let trace = TraceId::from_hex(&trace_id).ok()?;
    let span = SpanId::from_hex(&span_id?).ok()?;
    let flags = u8::from_str_radix(traceparent.split('-').nth(3)?, 16).ok()?;
    let sampled = TraceFlags::new(flags) & TraceFlags::SAMPLED;
    Some(SpanContext::new(trace, span, sampled, true, TraceState::default()))
}

/// The HTTP client that the command line has, too. It blocks, on the thread that sends spans.
#[derive(Debug)]
struct Posts(ureq::Agent);

#[async_trait]
impl HttpClient for Posts {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.0.run(request.map(|body| body.to_vec()))?;
        let (head, mut body) = response.into_parts();
        let body = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
        Ok(Response::from_parts(head, body.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_names_a_context_elsewhere() {
        let it = remote("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
        assert!(it.is_remote() && it.is_sampled() && it.is_valid());
        assert_eq!(it.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(it.span_id().to_string(), "b7ad6b7169203331");
        assert!(!remote("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00").unwrap().is_sampled());
        assert!(remote("00-0-0-01").is_none());
    }

    #[test]
    fn without_a_collector_a_context_is_passed_on_as_it_is() {
        let parent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
        let span = tracing::info_span!("nobody listens");
        assert_eq!(join(&span, parent.clone()), parent);
        assert_eq!(join(&span, None), None);
    }
}
