//! Sends the spans of traced requests to a collector of OpenTelemetry: OTLP over HTTP, as protobuf.
//!
//! No request waits for the collector. Ended spans wait in a queue of [`QUEUE_SPANS_MAX`] for a thread that
//! sends them. While the collector does not accept them, the queue is full and further spans are
//! dropped. Two counters show how many.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{Bytes, HttpError, Request, Response};
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, Span, SpanData,
    SpanExporter, SpanProcessor,
};
use parking_lot::Mutex;
use raft::causes;
use reqwest::blocking::Client;
use reqwest::redirect::Policy;
use storage::span::TARGET;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use crate::config::Config;
use crate::error::text;
use crate::program::VERSION;

/// Ended spans that wait to be sent.
const QUEUE_SPANS_MAX: usize = 4_096;
/// Spans of one message to the collector.
const MESSAGE_SPANS_MAX: usize = 512;
/// Time for which an ended span waits for others.
const DELAY: Duration = Duration::from_secs(2);
/// Time limit of one message.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit of the last messages of a node that stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// The spans of this process since its start.
#[derive(Debug, Default)]
pub(crate) struct SpanCounters {
    /// Spans that ended.
    pub(crate) ended: AtomicU64,
    /// Those that the collector accepted.
    pub(crate) sent: AtomicU64,
}

/// The connection to the collector.
#[derive(Clone)]
pub(crate) struct SpanCollector {
    provider: SdkTracerProvider,
    pub(crate) counters: Arc<SpanCounters>,
}

impl SpanCollector {
    /// That of the configuration, if it has one.
    ///
    /// # Errors
    /// The address is not usable.
    pub(crate) fn of(config: &Config) -> Result<Option<Self>, String> {
        let url = config.tracing.url.trim_end_matches('/');
        if url.is_empty() {
            return Ok(None);
        }
        let counters = Arc::<SpanCounters>::default();
        let sender = Sender::new(url, Arc::clone(&counters))?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_SPANS_MAX)
            .with_max_export_batch_size(MESSAGE_SPANS_MAX)
            .with_scheduled_delay(DELAY);
        let queue = BatchSpanProcessor::builder(sender).with_batch_config(batches.build()).build();
        let resource = Resource::builder().with_service_name("hearth").with_attributes([
            KeyValue::new("service.version", VERSION),
            KeyValue::new("service.instance.id", config.peer.advertised_address()),
        ]);
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::AlwaysOn)
            .with_resource(resource.build())
            .with_span_processor(Counted { queue, counters: Arc::clone(&counters) })
            .build();
        Ok(Some(Self { provider, counters }))
    }

    /// Takes the spans of requests from `tracing`, and no log line.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("hearth"))
            .with_context_activation(false)
            .with_tracked_inactivity(false)
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_filter(Targets::new().with_target(TARGET, LevelFilter::INFO))
    }

    /// Sends what has ended. A collector that does not respond gets no more.
    pub(crate) fn stop(&self) {
        let _: OTelSdkResult = self.provider.shutdown_with_timeout(STOP_TIMEOUT);
    }
}

/// Counts the spans that enter the queue or find it full.
#[derive(Debug)]
struct Counted {
    queue: BatchSpanProcessor,
    counters: Arc<SpanCounters>,
}

impl SpanProcessor for Counted {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.queue.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        self.counters.ended.fetch_add(1, Ordering::Relaxed);
        self.queue.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.queue.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.queue.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.queue.set_resource(resource);
    }
}

/// Counts the spans that the collector accepts. Logs when that begins and ends to fail.
#[derive(Debug)]
struct Sender {
    url: String,
    exporter: opentelemetry_otlp::SpanExporter,
    counters: Arc<SpanCounters>,
    fails: AtomicBool,
    /// Why the last message was not sent. The exporter reports no cause.
    cause: Arc<Mutex<Option<String>>>,
}

impl Sender {
    fn new(url: &str, counters: Arc<SpanCounters>) -> Result<Self, String> {
        let cause = Arc::<Mutex<Option<String>>>::default();
        let client = HttpClient { client: blocking_client(url)?, cause: Arc::clone(&cause) };
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(format!("{url}/v1/traces"))
            .with_timeout(SEND_TIMEOUT)
            .build();
        let exporter = exporter.map_err(|error| format!("tracing.url: {error}"))?;
        Ok(Self { url: url.to_owned(), exporter, counters, fails: AtomicBool::default(), cause })
    }
}

/// A client that connects to the collector alone: to no proxy of the environment, and to no other host.
fn blocking_client(url: &str) -> Result<Client, String> {
    let mut client =
        Client::builder().no_proxy().redirect(Policy::none()).timeout(Some(SEND_TIMEOUT));
    if url.starts_with("http://") {
        // It needs no authority, and a machine may have none.
        client = client.tls_certs_only([]);
    }
    // A thread of tokio may not block.
    let building = std::thread::spawn(|| client.build());
    let client = building.join().map_err(|_| "the client of the collector panicked".to_owned())?;
    client.map_err(|error| format!("tracing.url: {}", causes(&error)))
}

#[derive(Debug)]
struct HttpClient {
    client: Client,
    cause: Arc<Mutex<Option<String>>>,
}

#[async_trait]
impl opentelemetry_http::HttpClient for HttpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.client.send_bytes(request).await;
        *self.cause.lock() = sent.as_ref().err().map(|error| causes(&**error));
        sent
    }
}

impl SpanExporter for Sender {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        let count = spans.len() as u64;
        let sent = self.exporter.export(spans).await;
        let failed = self.fails.swap(sent.is_err(), Ordering::Relaxed);
        match &sent {
            Ok(()) => {
                self.counters.sent.fetch_add(count, Ordering::Relaxed);
                if failed {
                    tracing::info!("the collector of traces accepts spans again");
                }
            }
            Err(error) if !failed => {
                let cause = self.cause.lock().take().unwrap_or_else(|| text(error));
                let url = &self.url;
                tracing::warn!(url, cause, "the collector of traces accepts no spans");
            }
            Err(_) => {}
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
